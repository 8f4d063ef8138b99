"""Arrays that hold a search's hypotheses: made empty, written position by position, reordered.

Core operations with static ranks only, so that an exported graph runs wherever TensorFlow does.
"""

from keras import ops


def empty_ids(leading_shape, max_length, special_tokens):
    """Padding, int32 (*leading_shape, max_length + 1): room for `max_length` tokens and EOS."""
    return ops.full((*leading_shape, max_length + 1), special_tokens.pad, dtype="int32")


def write_at(ids, index, tokens):
    """`ids` (..., length) with `tokens` (...) at position `index`."""
    is_here = ops.arange(ops.shape(ids)[-1]) == index
    return ops.where(is_here, ops.expand_dims(tokens, -1), ids)


def choose(values, places):
    """Each row's own entries of `values` (batch, m, ...) at `places` (batch, n): (batch, n, ...).

    A gather of whole rows; `take_along_axis` would first spread the indices over all other axes.
    """
    batch_size, m, *rest = ops.shape(values)
    rows = ops.expand_dims(ops.arange(batch_size) * m, 1) + places
    chosen = ops.take(ops.reshape(values, (-1, *rest)), ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(chosen, (-1, ops.shape(places)[1], *rest))

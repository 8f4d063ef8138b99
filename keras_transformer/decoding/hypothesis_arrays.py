"""Arrays of hypotheses: creation, writing at a position, reordering.

Uses only core operations with static ranks, so that an exported graph runs wherever TensorFlow
does.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor


class SentenceState(NamedTuple):
    """A part of the model's state that belongs to a sentence: a nest of (batch, ...)."""

    values: Any

    def reorder(self, parents: Tensor) -> "SentenceState":
        """The same state, whatever the order of the hypotheses."""
        return self


def empty_ids(
    leading_shape: Sequence[Tensor], max_length: Tensor, special_tokens: SpecialTokens
) -> Tensor:
    """Padding, int32 (*leading_shape, max_length + 1): space for `max_length` tokens and EOS."""
    return ops.full((*leading_shape, max_length + 1), special_tokens.pad, dtype="int32")


def write_at(ids: Tensor, index: Tensor, tokens: Tensor) -> Tensor:
    """`ids` (..., length) with `tokens` (...) at position `index`."""
    is_here = ops.arange(ops.shape(ids)[-1]) == index
    return ops.where(is_here, ops.expand_dims(tokens, -1), ids)


def choose(values: Tensor, places: Tensor) -> Tensor:
    """The entries of `values` (batch, m, ...) at each row's `places` (batch, n): (batch, n, ...).

    Whole rows are gathered; `take_along_axis` would first broadcast the indices over all axes.
    """
    batch_size, m, *rest = ops.shape(values)
    rows = ops.expand_dims(ops.arange(batch_size) * m, 1) + places
    chosen = ops.take(ops.reshape(values, (-1, *rest)), ops.reshape(rows, (-1,)), axis=0)
    return ops.reshape(chosen, (batch_size, ops.shape(places)[1], *rest))


def stable_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`keras.ops.top_k` with int32 places. Among equal values, the first ones are taken."""
    if keras.backend.backend() == "torch":  # whose top-k takes any of them
        places = ops.argsort(-values, axis=-1)[..., :k]  # stable
        return ops.take_along_axis(values, places, axis=-1), places
    best, places = ops.top_k(values, k)
    return best, ops.cast(places, "int32")


def reorder(state: Any, places: Tensor) -> Any:
    """A nest of (batch, m, ...) with the entries at each row's `places` (batch, n).

    A part of the nest that has a method `reorder` is replaced by the method's result.
    """

    def reordered(part: Any) -> Any:
        if ops.is_tensor(part):
            return choose(part, places)
        return part.reorder(places) if hasattr(part, "reorder") else None  # None: look inside

    return keras.tree.traverse(reordered, state)

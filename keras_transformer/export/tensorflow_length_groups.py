"""A batch searched in groups of similar lengths, so that short rows do not wait for long ones.

All rows of a batch are searched until the longest output ends, with caches sized for the longest
source. One long row among short ones would cost as much as a batch of long ones.
Axes in the shape comments are those of `guarded_generator.py`.
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

# Maximum number of tokens of a row in each group but the last; most sentences are in the first.
BOUNDS = (64, 128)

Found = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # ids, lengths and scores


def search_by_length(
    search: Callable[[tf.Tensor, tf.Tensor], Found],
    input_ids: tf.Tensor,
    input_lengths: tf.Tensor,
    padding_id: int,
) -> Found:
    """Call `search` once for each group of lengths.

    Args:
        search: function of ids (batch, length) and lengths (batch,), any of them 0, to ids int32
            (batch, n, output), lengths int32 (batch, n) and scores float32 (batch, n).
        input_ids: int32 (batch, length).
        input_lengths: int32 (batch,), number of tokens of each row.
        padding_id: id that fills up the outputs.

    Returns:
        The results of `search` in the order of the rows.
    """
    lengths = tf.minimum(tf.maximum(input_lengths, 0), tf.shape(input_ids)[1])  # (batch,)
    group = sum(tf.cast(lengths > bound, tf.int32) for bound in BOUNDS)  # (batch,)
    rows, found = [], []
    for number in range(len(BOUNDS) + 1):
        rows.append(tf.cast(tf.where(tf.equal(group, number))[:, 0], tf.int32))
        lengths_of_group = tf.gather(lengths, rows[-1])
        longest = tf.maximum(tf.reduce_max(lengths_of_group), 0)
        ids_of_group = tf.gather(input_ids, rows[-1])[:, :longest]
        found.append(search(ids_of_group, lengths_of_group))
    place = _inverse(tf.concat(rows, axis=0))  # (batch,)
    ids, output_lengths, scores = zip(*found, strict=True)
    ids = tf.concat(_equally_long(ids, padding_id), axis=0)
    return tuple(
        tf.gather(values, place)
        for values in (ids, tf.concat(output_lengths, axis=0), tf.concat(scores, axis=0))
    )


def _equally_long(arrays: Sequence[tf.Tensor], padding_id: int) -> list[tf.Tensor]:
    """Arrays (batch, n, output) padded to the longest of them."""
    lengths = [tf.shape(array)[2] for array in arrays]
    longest = tf.reduce_max(tf.stack(lengths))
    return [
        tf.pad(array, [[0, 0], [0, 0], [0, longest - length]], constant_values=padding_id)
        for array, length in zip(arrays, lengths, strict=True)
    ]


def _inverse(permutation: tf.Tensor) -> tf.Tensor:
    """The place of each of 0, 1, 2, ... in a permutation of them."""
    number = tf.shape(permutation)
    return tf.scatter_nd(permutation[:, tf.newaxis], tf.range(number[0]), number)

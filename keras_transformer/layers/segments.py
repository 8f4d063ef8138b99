"""Rows that hold several sequences one after another: which position belongs to which sequence.

Segments are int32 tensors (batch, length): the number of each position's sequence, counted from 0
in its row.
"""

from keras import ops

from keras_transformer.types import Tensor


def segments_by_end(ids: Tensor, eos_id: int) -> Tensor:
    """The segments of sequences that end with EOS, as sources do.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in segments_by_end(np.array([[5, 2, 6, 7, 2, 0]]), eos_id=2)[0]]
        [0, 0, 1, 1, 1, 2]
    """
    is_end = ops.cast(ops.equal(ids, eos_id), "int32")
    return ops.cumsum(is_end, axis=1) - is_end


def segments_by_start(ids: Tensor, bos_id: int) -> Tensor:
    """The segments of sequences that begin with BOS, as the decoder's inputs do.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in segments_by_start(np.array([[1, 5, 1, 6, 7, 0]]), bos_id=1)[0]]
        [0, 0, 1, 1, 1, 1]
    """
    return ops.cumsum(ops.cast(ops.equal(ids, bos_id), "int32"), axis=1) - 1


def same_segment(targets: Tensor, sources: Tensor) -> Tensor:
    """Which positions are in the same segment: bool (batch, target, source)."""
    return ops.equal(ops.expand_dims(targets, 2), ops.expand_dims(sources, 1))


def places_in_segments(segments: Tensor) -> Tensor:
    """The place of each position in its segment, counted from 0: int32 (batch, length)."""
    length = ops.shape(segments)[1]
    is_before = ops.tril(ops.ones((length, length), dtype="int32"), k=-1)
    is_same = ops.cast(same_segment(segments, segments), "int32")
    return ops.sum(is_same * is_before, axis=2)

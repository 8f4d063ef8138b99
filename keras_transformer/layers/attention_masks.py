"""Attention masks. True marks a position that may be attended to.

Segments are int32 tensors (batch, length) with the zero-based index of each position's sequence
in its row.
"""

import functools
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, check_non_negative_int
from keras_transformer.errors import refuse
from keras_transformer.types import Shape, Tensor

MASKED_LOGIT = -1e9  # finite, so that fully masked rows have no NaN, even in gradients


def causal_mask(target_length: Tensor, source_length: Tensor = None) -> Tensor:
    """Return a mask that lets position i attend to positions 0 to i.

    Args:
        target_length, source_length: ints or scalar integer tensors; `source_length` defaults to
            `target_length`.

    Returns:
        Boolean tensor (1, target_length, source_length).
    """
    targets = ops.arange(target_length)
    sources = targets if source_length is None else ops.arange(source_length)
    allowed = ops.greater_equal(ops.expand_dims(targets, 1), ops.expand_dims(sources, 0))
    return ops.expand_dims(allowed, 0)


# The forms of a mask, defined by which of the axes (batch, heads, target, source) it has.
PADDING = (0, 3)
_FORMS = [PADDING, (2, 3), (0, 2, 3), (0, 1, 2, 3)]


def as_attention_mask(name: str, mask: Tensor, shape: Shape | None = None) -> Tensor:
    """Convert a mask of any form to rank 4.

    Args:
        name: name of the argument, for error messages.
        mask: tensor in a form that `mask_axes` accepts, or None. Numbers are treated as booleans.
        shape: as in `mask_axes`.

    Returns:
        Boolean tensor that broadcasts to (batch, heads, target, source), or None.

    Raises:
        ValueError: see `mask_axes`.
    """
    if mask is None:
        return None
    axes = mask_axes(name, mask, shape)
    mask = ops.cast(mask, "bool")
    for axis in range(4):
        if axis not in axes:
            mask = ops.expand_dims(mask, axis)
    return mask


def mask_axes(name: str, mask: Tensor, shape: Shape | None = None) -> tuple[int, ...]:
    """Return the form of a mask, as indices into the axes (batch, heads, target, source).

    A rank-2 mask is a padding mask, (batch, source). It is treated as an attention mask, (target,
    source), only if the batch size is known and differs from the size of the mask's first axis. An
    axis along which a mask is constant can have size 1, except the source axis of a rank-2 mask.

    Args:
        name: name of the argument, for error messages.
        mask: the mask, or None; only its shape is used.
        shape: (batch, heads, target, source) of the attention; unknown sizes are not ints. If None,
            only the rank of the mask is used.

    Returns:
        The axes; an empty tuple if the mask is None.

    Raises:
        ValueError: no form matches the mask, or the form of a rank-2 mask is ambiguous because the
            size of its first axis is known but the batch size is not.
    """
    if mask is None:
        return ()
    sizes = tuple(mask.shape)
    forms = [axes for axes in _FORMS if len(axes) == len(sizes)]
    if shape is not None:
        forms = [
            axes
            for axes in forms
            if all(
                _fits(size, shape[axis], may_be_1=axis != 3 or len(axes) > 2)
                for axis, size in zip(axes, sizes, strict=True)
            )
        ]
        is_constant = all(isinstance(size, int) for size in sizes) and sizes[0] != 1
        if len(forms) == 2 and is_constant and not isinstance(shape[0], int):
            forms = []
    if not forms:
        of = "" if shape is None else f" for (batch, heads, target, source) = {tuple(shape)}"
        raise ValueError(
            f"`{name}` must be a padding mask, (batch, source_length), or an attention mask, "
            "(batch, target_length, source_length) or (batch, num_heads, target_length, "
            "source_length); for a causal mask use `use_causal_mask=True`. "
            f"Received: shape {sizes}{of}"
        )
    return forms[0]


def _fits(size: int | None, other: int | None, *, may_be_1: bool) -> bool:
    """Return whether two sizes of an axis are compatible. Sizes that are not ints are unknown."""
    if not (isinstance(size, int) and isinstance(other, int)):
        return True
    return size == other or (size == 1 and may_be_1)


def as_source_mask(name: str, mask: Tensor, shape: Shape) -> Tensor:
    """Convert a padding mask to an attention mask.

    Args:
        name: name of the argument, for error messages.
        mask: tensor (batch, length), or None.
        shape: shape (batch, length, ...) of the masked tensor; unknown sizes are not ints.

    Returns:
        Boolean tensor (batch, 1, 1, length), or None.

    Raises:
        ValueError: the mask has the wrong shape.
    """
    if mask is not None and not (
        len(mask.shape) == 2
        and _fits(mask.shape[0], shape[0], may_be_1=True)
        and _fits(mask.shape[1], shape[1], may_be_1=False)
    ):
        rule = f"be a padding mask, (batch, length), here {tuple(shape[:2])}"
        refuse(name, rule, shape=tuple(mask.shape))
    return as_attention_mask(name, mask)


def as_row_mask(mask: Tensor) -> Tensor:
    """Convert a source mask (batch, 1, 1, length) to (batch, 1, length, 1); None stays None."""
    # Transposing booleans makes TensorFlow log an error on CPUs without a suitable oneDNN kernel.
    return None if mask is None else ops.expand_dims(ops.squeeze(mask, 2), 3)


def for_every_head(mask: Tensor) -> Tensor:
    """Add a heads axis to a mask (batch, target, source); return (source,) and None unchanged."""
    return mask if mask is None or len(mask.shape) < 2 else ops.expand_dims(mask, -3)


def all_of(*masks: Tensor) -> Tensor:
    """Combine the masks that are not None with a logical AND; return None if all are None."""
    present = [mask for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, present) if present else None


def zero_hidden_rows(values: Tensor, mask: Tensor) -> Tensor:
    """Set values (..., target, size) to 0 at targets with no True in their row of `mask`.

    Args:
        values: attended values or attention weights, which are arbitrary at those targets.
        mask: boolean tensor that broadcasts to (..., target, source).
    """
    return ops.where(ops.any(mask, axis=-1, keepdims=True), values, 0)


def segments_by_end(ids: Tensor, eos_id: int) -> Tensor:
    """Return the segments of sequences that end with EOS, such as sources.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in segments_by_end(np.array([[5, 2, 6, 7, 2, 0]]), eos_id=2)[0]]
        [0, 0, 1, 1, 1, 2]
    """
    is_end = ops.cast(ops.equal(ids, eos_id), "int32")
    return ops.cumsum(is_end, axis=1) - is_end


def segments_by_start(ids: Tensor, bos_id: int) -> Tensor:
    """Return the segments of sequences that start with BOS, such as decoder inputs.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in segments_by_start(np.array([[1, 5, 1, 6, 7, 0]]), bos_id=1)[0]]
        [0, 0, 1, 1, 1, 1]
    """
    return ops.cumsum(ops.cast(ops.equal(ids, bos_id), "int32"), axis=1) - 1


def same_segment(targets: Tensor, sources: Tensor) -> Tensor:
    """Return a mask of position pairs in the same segment: bool (batch, target, source)."""
    return ops.equal(ops.expand_dims(targets, 2), ops.expand_dims(sources, 1))


def places_in_segments(segments: Tensor) -> Tensor:
    """Return the zero-based place of each position in its segment: int32 (batch, length)."""
    length = ops.shape(segments)[1]
    is_before = ops.tril(ops.ones((length, length), dtype="int32"), k=-1)
    is_same = ops.cast(same_segment(segments, segments), "int32")
    return ops.sum(is_same * is_before, axis=2)


@keras.saving.register_keras_serializable(package="keras_transformer")
class PaddingMask(KeepsArguments, keras.layers.Layer):
    """Computes a mask of the real tokens in a padded batch.

    Args:
        padding_id: id of the padding.
        hidden_id: another id to hide from attention, such as EOS in a model that was trained
            without EOS in its sources, or None.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        ids: tensor (batch, length) of any real dtype.

    Returns:
        Boolean tensor (batch, 1, length), True = may be attended to.

    Raises:
        ValueError: an id is negative or not an integer.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in PaddingMask()(np.array([[5, 2, 0]]))[0, 0]]
        [1, 1, 0]
    """

    def __init__(self, *, padding_id: int = 0, hidden_id: int | None = None, **kwargs: Any) -> None:
        # Ids passed as floats would lose precision in the compute dtype.
        super().__init__(**{**kwargs, "autocast": False})
        check_non_negative_int("padding_id", padding_id)

    def call(self, ids: Tensor) -> Tensor:
        is_seen = ops.not_equal(ids, self.padding_id)
        if self.hidden_id is not None:
            is_seen = ops.logical_and(is_seen, ops.not_equal(ids, self.hidden_id))
        return ops.expand_dims(is_seen, 1)

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        return (ids_shape[0], 1, ids_shape[1])

    def compute_output_spec(self, ids: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(self.compute_output_shape(ids.shape), dtype="bool")

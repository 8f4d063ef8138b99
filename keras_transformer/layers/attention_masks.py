"""Attention masks. True marks a position that may be attended to.

Segments are int32 tensors (batch, length): the number of each position's sequence, counted from 0
in its row.
"""

import functools
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, check_non_negative_int
from keras_transformer.errors import refuse
from keras_transformer.types import Shape, Tensor

MASKED_LOGIT = -1e9  # finite, so that a fully masked row has no NaN, even in its gradient


def causal_mask(target_length: Tensor, source_length: Tensor = None) -> Tensor:
    """Mask that lets position i attend to positions 0 to i.

    Args:
        target_length, source_length: ints or scalar integer tensors; `source_length` is
            `target_length` if None.

    Returns:
        Boolean tensor (1, target_length, source_length).
    """
    targets = ops.arange(target_length)
    sources = targets if source_length is None else ops.arange(source_length)
    allowed = ops.greater_equal(ops.expand_dims(targets, 1), ops.expand_dims(sources, 0))
    return ops.expand_dims(allowed, 0)


# The forms of a mask, named by the axes that it has out of (batch, heads, target, source).
PADDING = (0, 3)
_FORMS = [PADDING, (2, 3), (0, 2, 3), (0, 1, 2, 3)]


def as_attention_mask(name: str, mask: Tensor, shape: Shape | None = None) -> Tensor:
    """A mask of any form, converted to rank 4.

    Args:
        name: the argument's name, for errors.
        mask: tensor of a form that `mask_axes` accepts, or None. Numbers are read as booleans.
        shape: as in `mask_axes`.

    Returns:
        Boolean tensor that broadcasts to (batch, heads, target, source), or None.

    Raises:
        ValueError: the same errors as `mask_axes`.
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
    """The form of a mask, as numbers of the axes (batch, heads, target, source).

    A mask of rank 2 is a padding mask, (batch, source). It is an attention mask, (target, source),
    only if the batch size is known and differs from the mask's first axis. An axis along which a
    mask is constant may have size 1, except the source axis of a mask of rank 2.

    Args:
        name: the argument's name, for errors.
        mask: the mask, or None; only its shape is read.
        shape: (batch, heads, target, source) of the attention; unknown sizes are not ints. None:
            only the rank decides.

    Returns:
        The axes; an empty tuple for None.

    Raises:
        ValueError: no form fits the mask, or both forms of rank 2 do: its first axis is known, but
            the batch is not.
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
    """Whether an axis fits a size. Sizes that are not ints are unknown."""
    if not (isinstance(size, int) and isinstance(other, int)):
        return True
    return size == other or (size == 1 and may_be_1)


def as_source_mask(name: str, mask: Tensor, shape: Shape) -> Tensor:
    """A padding mask as an attention mask.

    Args:
        name: the argument's name, for errors.
        mask: tensor (batch, length), or None.
        shape: shape (batch, length, ...) of the tensor that is masked; unknown sizes are not ints.

    Returns:
        Boolean tensor (batch, 1, 1, length), or None.

    Raises:
        ValueError: the mask has a wrong shape.
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
    """A source mask (batch, 1, 1, length) as a row mask (batch, 1, length, 1); None stays None."""
    # Transposing booleans makes TensorFlow log an error on CPUs without a oneDNN kernel for it.
    return None if mask is None else ops.expand_dims(ops.squeeze(mask, 2), 3)


def for_every_head(mask: Tensor) -> Tensor:
    """A mask (batch, target, source) as (batch, 1, target, source); (source,) and None stay."""
    return mask if mask is None or len(mask.shape) < 2 else ops.expand_dims(mask, -3)


def all_of(*masks: Tensor) -> Tensor:
    """Where all masks that are not None are True; None if all are None."""
    present = [mask for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, present) if present else None


def zero_hidden_rows(values: Tensor, mask: Tensor) -> Tensor:
    """Values (..., target, size), set to 0 at targets whose row of `mask` has no True.

    Args:
        values: attended values or attention weights, which are arbitrary at those targets.
        mask: boolean tensor that broadcasts to (..., target, source).
    """
    return ops.where(ops.any(mask, axis=-1, keepdims=True), values, 0)


def segments_by_end(ids: Tensor, eos_id: int) -> Tensor:
    """The segments of sequences that end with EOS, like sources.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in segments_by_end(np.array([[5, 2, 6, 7, 2, 0]]), eos_id=2)[0]]
        [0, 0, 1, 1, 1, 2]
    """
    is_end = ops.cast(ops.equal(ids, eos_id), "int32")
    return ops.cumsum(is_end, axis=1) - is_end


def segments_by_start(ids: Tensor, bos_id: int) -> Tensor:
    """The segments of sequences that start with BOS, like the decoder's inputs.

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


@keras.saving.register_keras_serializable(package="keras_transformer")
class PaddingMask(KeepsArguments, keras.layers.Layer):
    """Mask of the real tokens of a padded batch.

    Args:
        padding_id: id of the padding.
        hidden_id: another id that is not attended to, such as EOS in a model that was trained
            without EOS in its sources; None: no other id.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        ids: tensor (batch, length), of any real type.

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
        # Ids given as floats would lose their last digits in the compute dtype.
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

"""Attention masks. Everywhere in this package True means: this position may be attended to."""

import functools

from keras import ops

from keras_transformer.types import Tensor


def padding_mask(ids: Tensor, padding_id: int) -> Tensor:
    """Mask of the real tokens.

    Args:
        ids: integer tensor (batch, length).
        padding_id: the id that fills rows up.

    Returns:
        Boolean tensor (batch, 1, length), for any number of query positions.
    """
    return ops.expand_dims(ops.not_equal(ids, padding_id), 1)


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


def as_attention_mask(name: str, mask: Tensor) -> Tensor:
    """A mask of either rank as one of attention.

    Args:
        name: the argument's name, for errors.
        mask: tensor (batch, source_length), True at real tokens, or (batch, target_length,
            source_length), or None. Numbers stand for booleans.

    Returns:
        Boolean tensor (batch, target_length or 1, source_length), or None.

    Raises:
        ValueError: the mask has another rank.
    """
    if mask is None:
        return None
    check_attention_mask(name, mask)
    mask = ops.cast(mask, "bool")
    return ops.expand_dims(mask, 1) if len(mask.shape) == 2 else mask


def check_attention_mask(name: str, mask: Tensor) -> None:
    """Require a mask of rank 2 or 3, or None."""
    if mask is not None and len(mask.shape) not in (2, 3):
        raise ValueError(
            f"`{name}` must be a mask of padding, (batch, source_length), or of attention, "
            f"(batch, target_length, source_length). Received: shape {tuple(mask.shape)}"
        )


def as_source_mask(name: str, mask: Tensor) -> Tensor:
    """A mask of padding (batch, length) as one of attention, (batch, 1, length); None stays."""
    if mask is not None and len(mask.shape) != 2:
        raise ValueError(
            f"`{name}` must be a mask of padding, (batch, length). "
            f"Received: shape {tuple(mask.shape)}"
        )
    return as_attention_mask(name, mask)


def as_row_mask(name: str, mask: Tensor) -> Tensor:
    """A mask of padding (batch, length) as one of attention, (batch, length, 1); None stays."""
    mask = as_source_mask(name, mask)
    # A transposed boolean makes TensorFlow log an error on CPUs that oneDNN has no kernel for.
    return None if mask is None else ops.expand_dims(ops.squeeze(mask, 1), 2)


def all_of(*masks: Tensor) -> Tensor:
    """Where all masks that are not None are True; None if all are None."""
    present = [mask for mask in masks if mask is not None]
    return functools.reduce(ops.logical_and, present) if present else None

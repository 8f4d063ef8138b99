"""Ids as they are given to a generator: their shape, their type and their range."""

from typing import Any

import numpy as np
from keras import ops

from keras_transformer.argument_checks import known_values
from keras_transformer.types import Tensor


def in_graph() -> bool:
    """Whether operations are written into a graph or a trace, instead of being done."""
    return known_values(ops.zeros(())) is None


def checked_ids(name: str, ids: Any, vocabulary_size: int | None = None) -> Tensor:
    """Ids as int32 (batch, length): a NumPy array, or a tensor of a graph.

    Args:
        name: the argument that holds them, for the errors.
        ids: integers, or floats that are whole numbers.
        vocabulary_size: number of tokens that ids may be of; None: any integers.

    Raises:
        ValueError: the ids are not a matrix, or known values break a rule.
    """
    if isinstance(ids, (list, tuple)):
        _check_rows(name, ids)
    values = known_values(ids)
    tensor = ops.convert_to_tensor(ids) if values is None else values
    if len(tensor.shape) != 2:
        raise ValueError(
            f"`{name}` must have the shape (batch, length), such as [[7, 8, 2]]. "
            f"Received: {name} of shape {tuple(tensor.shape)}"
        )
    if values is None:
        return ops.cast(tensor, "int32")
    if values.size:
        _check_values(name, values, vocabulary_size)
    return values.astype("int32")


def _check_rows(name: str, rows: Any) -> None:
    lengths = {len(row) for row in rows if isinstance(row, (list, tuple))}
    if len(lengths) > 1:
        raise ValueError(
            f"`{name}` must have rows of one length, filled up with padding. "
            f"Received: {name} with rows of {', '.join(map(str, sorted(lengths)))} ids"
        )


def _check_values(name: str, values: np.ndarray, vocabulary_size: int | None) -> None:
    if values.dtype.kind not in "iuf":
        raise ValueError(f"`{name}` must be integers. Received: {name} of dtype {values.dtype}")
    is_wrong, rule = values % 1 != 0, "whole numbers"
    if not is_wrong.any():
        limits = np.iinfo("int32")
        low, high = (limits.min, limits.max) if not vocabulary_size else (0, vocabulary_size - 1)
        is_wrong, rule = (values < low) | (values > high), f"ids from {low} to {high}"
    if is_wrong.any():
        raise ValueError(
            f"`{name}` must be {rule}. Received: {name} with {values[is_wrong][0]} among them"
        )

"""The rows of a batch: filling them up, and sharing them among processes."""

from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int
from keras_transformer.data.batches.shape_cells import PaddedShape

# Inputs by name, labels and weights.
Batch: TypeAlias = tuple[dict[str, NDArray[np.int32]], NDArray[np.int32], NDArray[np.float32]]
# Index of a process and number of processes.
Shard: TypeAlias = tuple[int, int]

_Scalar = TypeVar("_Scalar", bound=np.generic)


def fill_batch(batch: Batch, shape: PaddedShape, padding_id: int) -> Batch:
    """Pad a batch to `(rows, source_length, target_length)`, with weight 0 for the padding.

    Example:
        >>> ids = np.array([[5, 2]])
        >>> inputs = {"source_ids": ids, "target_ids": ids}
        >>> weights = np.array([[0.5, 0.5]], "float32")
        >>> _, labels, weights = fill_batch((inputs, ids, weights), (2, 2, 3), padding_id=0)
        >>> labels.tolist(), weights.tolist()
        ([[5, 2, 0], [0, 0, 0]], [[0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    """
    inputs, labels, weights = batch
    rows, source_length, target_length = shape
    inputs = {
        "source_ids": _fill(inputs["source_ids"], rows, source_length, padding_id),
        "target_ids": _fill(inputs["target_ids"], rows, target_length, padding_id),
    }
    labels = _fill(labels, rows, target_length, padding_id)
    return inputs, labels, _fill(weights, rows, target_length, 0)


def share_of_rows(batch: Batch, shard: Shard) -> Batch:
    """Return the rows of a batch for one of several processes, with the whole batch's weights."""
    inputs, labels, weights = batch
    index, count = shard
    rows = len(labels) // count
    part = slice(index * rows, (index + 1) * rows)
    return {name: ids[part] for name, ids in inputs.items()}, labels[part], weights[part]


def check_sharing(row_multiple: int, shard: Shard) -> None:
    """Require equal slices for all processes."""
    check_positive_int("row_multiple", row_multiple)
    index, count = shard
    check_positive_int("shard[1]", count)
    check_non_negative_int("shard[0]", index)
    if index >= count:
        raise ValueError(f"`shard` must be (index, count) with index < count. Received: {shard}")
    if row_multiple % count:
        raise ValueError(
            "`row_multiple` must be a multiple of the number of processes in `shard`. "
            f"Received: row_multiple={row_multiple}, shard={shard}"
        )


def _fill(array: NDArray[_Scalar], rows: int, columns: int, value: int) -> NDArray[_Scalar]:
    if array.shape == (rows, columns):
        return array
    filled = np.full((rows, columns), value, array.dtype)
    filled[: array.shape[0], : array.shape[1]] = array
    return filled

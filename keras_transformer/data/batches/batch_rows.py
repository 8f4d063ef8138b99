"""The rows of a batch: filled up with empty ones, and shared among processes."""

import numpy as np

from keras_transformer.argument_checks import check_non_negative_int, check_positive_int


def fill_batch(batch, shape, padding_id):
    """Widen `(inputs, labels, weights)` by padding to `(rows, source_length, target_length)`.

    What is added weighs nothing.

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


def share_of_rows(batch, shard):
    """The rows of a batch that one of several processes trains on; `shard` is as of `batch_stream`.

    The weights stay those of the whole batch.
    """
    inputs, labels, weights = batch
    index, count = shard
    rows = len(labels) // count
    part = slice(index * rows, (index + 1) * rows)
    return {name: ids[part] for name, ids in inputs.items()}, labels[part], weights[part]


def check_sharing(row_multiple, shard):
    """Require that the slices of all processes are equal."""
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


def _fill(array, rows, columns, value):
    if array.shape == (rows, columns):
        return array
    filled = np.full((rows, columns), value, array.dtype)
    filled[: array.shape[0], : array.shape[1]] = array
    return filled

"""Batches of a corpus as a `tf.data.Dataset`."""

from typing import Any

import numpy as np
import tensorflow as tf

from keras_transformer.data.batches.batch_reader import BatchReader
from keras_transformer.data.batches.batch_rows import Shard, check_sharing, share_of_rows

READ_AHEAD = 4  # batches that wait for their step


def as_dataset(
    reader: BatchReader,
    start_step: int = 0,
    stop_step: int | None = None,
    row_multiple: int = 1,
    shard: Shard = (0, 1),
) -> tf.data.Dataset:
    """Return the batches of steps `start_step`, `start_step + 1`, ... as a dataset.

    The dataset knows its number of batches, without which Keras miscounts steps.

    Args:
        reader: reads the batches.
        start_step: global step of the first batch, from 0.
        stop_step: global step before which the dataset ends; None for an endless one.
        row_multiple: as in `BatchReader.batch`; a multiple of the number of processes.
        shard: `(index, count)`, as in `batch_stream`.

    Returns:
        A `tf.data.Dataset` of `(inputs, labels, weights)` as `BatchReader.batch` returns them, all
        of shape `(None, None)`, read ahead of the training step.

    Raises:
        ValueError: `row_multiple` or `shard` is invalid.
    """
    check_sharing(row_multiple, shard)

    def read(step: np.integer) -> tuple[np.ndarray, ...]:
        batch = reader.batch(int(step), row_multiple)
        inputs, labels, weights = share_of_rows(batch, shard)
        return inputs["source_ids"], inputs["target_ids"], labels, weights

    def to_tensors(step: tf.Tensor) -> Any:
        tensors = tf.numpy_function(read, [step], [tf.int32, tf.int32, tf.int32, tf.float32])
        for tensor in tensors:
            tensor.set_shape([None, None])
        source_ids, target_ids, labels, weights = tensors
        return {"source_ids": source_ids, "target_ids": target_ids}, labels, weights

    if stop_step is None:
        steps = tf.data.Dataset.counter(start_step)
    else:
        steps = tf.data.Dataset.range(start_step, stop_step)
    options = tf.data.Options()
    # Its thread ends only at its next look, after a pause that doubles from 10 ms on: the end of a
    # `fit` or `evaluate` would wait for as long as it has lasted, up to a minute.
    options.autotune.enabled = False
    return steps.map(to_tensors).prefetch(READ_AHEAD).with_options(options)

"""Batches of a corpus as a `tf.data.Dataset`."""

import tensorflow as tf

from keras_transformer.data.batches.batch_rows import check_sharing, share_of_rows


def as_dataset(reader, start_step=0, stop_step=None, row_multiple=1, shard=(0, 1)):
    """Batches of steps `start_step`, `start_step + 1`, ... without end or to `stop_step`.

    The dataset knows its number of batches: Keras counts steps wrongly where it does not.

    Args:
        reader: a `BatchReader`.
        start_step: global step of the first batch, from 0.
        stop_step: global step before which the dataset ends, or None.
        row_multiple: as in `BatchReader.batch`; a multiple of the number of processes.
        shard: `(index, count)`, as in `batch_stream`.

    Returns:
        A `tf.data.Dataset` of `(inputs, labels, weights)` as `BatchReader.batch` returns them, all
        of shape `(None, None)`, read ahead of the training step.

    Raises:
        ValueError: `row_multiple` or `shard` break their rule.
    """
    check_sharing(row_multiple, shard)

    def read(step):
        batch = reader.batch(int(step), row_multiple)
        inputs, labels, weights = share_of_rows(batch, shard)
        return inputs["source_ids"], inputs["target_ids"], labels, weights

    def to_tensors(step):
        tensors = tf.numpy_function(read, [step], [tf.int32, tf.int32, tf.int32, tf.float32])
        for tensor in tensors:
            tensor.set_shape([None, None])
        source_ids, target_ids, labels, weights = tensors
        return {"source_ids": source_ids, "target_ids": target_ids}, labels, weights

    if stop_step is None:
        steps = tf.data.Dataset.counter(start_step)
    else:
        steps = tf.data.Dataset.range(start_step, stop_step)
    return steps.map(to_tensors).prefetch(tf.data.AUTOTUNE)

"""Batches of a corpus as a `tf.data.Dataset`."""

import tensorflow as tf


def as_dataset(reader, start_step=0, stop_step=None):
    """Batches of steps `start_step`, `start_step + 1`, ... without end or to `stop_step`.

    The dataset knows its number of batches: Keras counts steps wrongly where it does not.

    Args:
        reader: a `BatchReader`.
        start_step: global step of the first batch, from 0.
        stop_step: global step before which the dataset ends, or None.

    Returns:
        A `tf.data.Dataset` of `(inputs, labels, weights)` as `BatchReader.batch` returns them, all
        of shape `(None, None)`, read ahead of the training step.
    """

    def read(step):
        inputs, labels, weights = reader.batch(int(step))
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

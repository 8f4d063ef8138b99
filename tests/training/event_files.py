"""Reading the files that TensorBoard reads, without TensorBoard."""

import tensorflow as tf


def events(directory):
    """Return `{tag: {step: value}}` and `{tag: plugin}` of all event files of a directory."""
    values, plugins = {}, {}
    for path in sorted(directory.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                number = tf.make_ndarray(value.tensor)
                number = number.item() if number.ndim == 0 else number.tolist()
                values.setdefault(value.tag, {})[event.step] = number
                plugins.setdefault(value.tag, value.metadata.plugin_data.plugin_name)
    return values, plugins

"""A training's values for TensorBoard."""

import sys

from keras_transformer.backend_start import leave_gpus_to_keras
from keras_transformer.training.callbacks.step_log import StepLog
from keras_transformer.training.callbacks.validation_log import validation_values

SAMPLE_COLUMNS = ("source", "translation", "reference")


class TensorBoardLog(StepLog):
    """Writes the values of `StepLog`, of each validation and sample translations as event files.

    `tensorboard --logdir DIRECTORY` shows them. TensorFlow writes the files; where it is not
    installed, as may be on JAX, one line says that there are none.

    Errors of the disk are `CannotWrite`. TensorFlow's own would not do: to Keras's `fit` one that
    says "out of range", as of a file that is too large, is the end of the data.

    Args:
        directory: where the event files go.
        work: the `StepWork` of the training.
        every: after the first 10 steps, values are written at every multiple of it.
        samples: function without arguments that returns the last sample translations, a list of
            `(source, hypothesis, reference)`, or None. They are written with each `val_bleu`.
    """

    def __init__(self, directory, work, every=50, samples=None):
        super().__init__(work, every)
        self.directory = directory
        self._samples = samples
        self._writer = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        try:
            with self._writing():
                self._writer = _event_writer(self.directory)
        except ImportError:
            print("TensorFlow is not installed: there are no TensorBoard logs.", file=sys.stderr)

    def on_step_end(self, logs):
        if self._writer is not None:
            with self._writing():
                super().on_step_end(logs)

    def on_epoch_end(self, epoch, logs=None):
        if self._writer is None:
            return
        values = validation_values(logs)
        with self._writing():
            self._write_scalars(values)
            if "val_bleu" in values and self._samples is not None:
                table = [SAMPLE_COLUMNS, *self._samples()]
                self._write("samples", table, plugin="text", data_class=2)
            self._writer.flush()

    def write_step(self, values):
        self._write_scalars(values)

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Close the file; whoever catches an error of `fit` calls this."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._writing():
                writer.close()

    def _writing(self):
        from keras_transformer.files.tensorflow_write_errors import tensorflow_writing

        return tensorflow_writing(self.directory)

    def _write_scalars(self, values):
        for name, value in values.items():
            self._write(name, float(value), plugin="scalars", data_class=1)

    def _write(self, name, value, plugin, data_class):
        """Write what `tf.summary.scalar` (data class 1) and `tf.summary.text` (2) do.

        Those need TensorBoard itself. The classes are of `tensorflow/core/framework/summary.proto`.
        """
        import tensorflow as tf

        metadata = tf.compat.v1.SummaryMetadata(data_class=data_class)
        metadata.plugin_data.plugin_name = plugin
        with self._writer.as_default(step=self.step):
            tf.summary.write(name, tf.constant(value), metadata=metadata)


def _event_writer(directory):
    import tensorflow as tf

    leave_gpus_to_keras()
    return tf.summary.create_file_writer(str(directory))

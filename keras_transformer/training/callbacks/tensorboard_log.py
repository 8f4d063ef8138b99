"""A training's values for TensorBoard."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from keras_transformer.evaluation.cost.step_work import StepWork
from keras_transformer.files.standard_streams import note
from keras_transformer.training.callbacks.metrics_log import StepLog, validation_values
from keras_transformer.training.callbacks.step_callback import Logs
from keras_transformer.types import PathLike

SAMPLE_COLUMNS = ("source", "translation", "reference")


class TensorBoardLog(StepLog):
    """Writes event files: the values of `StepLog`, each validation and sample translations.

    `tensorboard --logdir DIRECTORY` shows them. TensorFlow writes the files; without TensorFlow,
    which is possible on JAX, nothing is written, and one line says so.

    Disk errors are raised as `CannotWrite`: Keras's `fit` would mistake TensorFlow's "out of
    range", raised for a file that is too large, for the end of the data.

    Args:
        directory: where the event files go.
        work: the work of the training's steps.
        every: after the first 10 steps, every `every`-th step is written.
        samples: returns the last sample translations as `(source, hypothesis, reference)`; they
            are written with each `val_bleu`.
    """

    def __init__(
        self,
        directory: PathLike,
        work: StepWork,
        every: int = 50,
        samples: Callable[[], Sequence[tuple[str, str, str]]] | None = None,
    ) -> None:
        super().__init__(work, every)
        self.directory = directory
        self._samples = samples
        self._writer: Any = None  # a `tf.summary.SummaryWriter` while the training runs

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        try:
            with self._writing():
                self._writer = _event_writer(self.directory)
        except ImportError:
            note("TensorFlow is not installed: no TensorBoard logs are written.")

    def on_step_end(self, logs: Logs) -> None:
        if self._writer is not None:
            with self._writing():
                super().on_step_end(logs)

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        if self._writer is None:
            return
        values = validation_values(logs)
        with self._writing():
            self._write_scalars(values)
            if "val_bleu" in values and self._samples is not None:
                table = [SAMPLE_COLUMNS, *self._samples()]
                self._write("samples", table, plugin="text", data_class=2)
            self._writer.flush()

    def write_step(self, values: dict[str, float]) -> None:
        self._write_scalars(values)

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Call it if `fit` raises, as `on_train_end` is not called then."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            with self._writing():
                writer.close()

    def _writing(self) -> AbstractContextManager[None]:
        from keras_transformer.files.tensorflow_files import tensorflow_writing

        return tensorflow_writing(self.directory)

    def _write_scalars(self, values):
        for name, value in values.items():
            self._write(name, float(value), plugin="scalars", data_class=1)

    def _write(self, name, value, plugin, data_class):
        """Write as `tf.summary.scalar` (data class 1) or `.text` (2), which need TensorBoard.

        `tensorflow/core/framework/summary.proto` defines the classes.
        """
        import tensorflow as tf

        metadata = tf.compat.v1.SummaryMetadata(data_class=data_class)
        metadata.plugin_data.plugin_name = plugin
        with self._writer.as_default(step=self.step):
            tf.summary.write(name, tf.constant(value), metadata=metadata)


def _event_writer(directory):
    import tensorflow as tf

    from keras_transformer.files.tensorflow_files import leave_gpus_to_keras

    leave_gpus_to_keras()
    return tf.summary.create_file_writer(str(directory))

"""metrics.csv: what single training steps gave."""

from keras_transformer.files.output_files import write_all
from keras_transformer.files.whole_files import writing
from keras_transformer.training.callbacks.step_log import StepLog

FORMATS = {
    "loss": ".9g",
    "learning_rate": ".9g",
    "target_tokens_per_second": ".1f",
    "nll": ".9g",
    "gradient_norm": ".9g",
    "step_seconds": ".6f",
    "padding_share": ".4f",
    "flop_utilisation": ".4f",
}


class MetricsLog(StepLog):
    """Writes the values of `StepLog` to a file, one row a step; a value not known is left empty.

    The columns are `step,loss,learning_rate,target_tokens_per_second,nll,gradient_norm,
    step_seconds,padding_share,flop_utilisation`. Losses have 9 significant digits, so that equal
    digits mean equal float32 values.

    Args:
        path: the file; rows are appended if it exists.
        work: the `StepWork` of the training.
        every: after the first 10 steps, a row is written at every multiple of it.
    """

    def __init__(self, path, work, every=50):
        super().__init__(work, every)
        self.path = path
        self._file = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        # Without a buffer, which `close` would try to write once more on a full disk.
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        if self._file.tell() == 0:
            self._write(["step", *FORMATS])

    def write_step(self, values):
        cells = (
            format(values[name], form) if name in values else "" for name, form in FORMATS.items()
        )
        self._write([str(self.step), *cells])

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Close the file; whoever catches an error of `fit` calls this."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, cells):
        with writing(self.path):
            write_all(self._file, (",".join(cells) + "\n").encode())

"""metrics.csv: the values of single training steps."""

import io
from collections.abc import Sequence

from keras_transformer.files.output_files import write_all
from keras_transformer.files.whole_files import writing
from keras_transformer.training.callbacks.step_callback import Logs
from keras_transformer.training.callbacks.step_log import StepLog
from keras_transformer.training.cost.step_work import StepWork
from keras_transformer.types import PathLike

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
    """Writes the values of `StepLog` to a CSV file, one row a step; unknown values stay empty.

    The columns are `step,loss,learning_rate,target_tokens_per_second,nll,gradient_norm,
    step_seconds,padding_share,flop_utilisation`. Losses have 9 significant digits, so that equal
    digits mean equal float32 values.

    Args:
        path: the file; rows are appended if it exists.
        work: the work of the training's steps.
        every: after the first 10 steps, every `every`-th step is written.
    """

    def __init__(self, path: PathLike, work: StepWork, every: int = 50) -> None:
        super().__init__(work, every)
        self.path = path
        self._file: io.FileIO | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        # Without a buffer, which `close` would try to write once more on a full disk.
        self._file = open(self.path, "ab", buffering=0)  # noqa: SIM115
        if self._file.tell() == 0:
            self._write(["step", *FORMATS])

    def write_step(self, values: dict[str, float]) -> None:
        cells = (
            format(values[name], form) if name in values else "" for name, form in FORMATS.items()
        )
        self._write([str(self.step), *cells])

    def on_train_end(self, logs: Logs | None = None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file. Call it if `fit` raises, as `on_train_end` is not called then."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, cells: Sequence[str]) -> None:
        if self._file is not None:
            with writing(self.path):
                write_all(self._file, (",".join(cells) + "\n").encode())

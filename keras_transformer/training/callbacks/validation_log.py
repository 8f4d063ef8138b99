"""validation.csv: the values of each validation."""

import csv
from pathlib import Path

from keras_transformer.files.whole_files import write_text
from keras_transformer.training.callbacks.step_callback import CLOCK, Logs, StepCallback
from keras_transformer.types import PathLike

LEFT_OUT = ("val_loss", "val_step_loss", "val_step_nll")


class ValidationLog(StepCallback):
    """Writes step, seconds since the start and the `val_` values, one row a validation.

    Left out are `val_loss`, which Keras averages over sentences (use `metrics.TokenLoss`), and
    `val_step_loss` and `val_step_nll`, which are those of the last batch. A value that is not
    measured at every validation, such as BLEU, leaves its cell empty.

    Args:
        path: the file; rows are appended if it exists.
        elapsed: seconds that the training took before it was resumed.
    """

    def __init__(self, path: PathLike, elapsed: float = 0.0) -> None:
        super().__init__()
        self.path = Path(path)
        self.elapsed = elapsed

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        self._began = CLOCK.seconds() - self.elapsed

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        values = validation_values(logs)
        if not values:
            return
        seconds = CLOCK.seconds() - self._began
        row = {"step": str(self.step), "seconds": f"{seconds:.1f}"}
        row |= {name: f"{value:.9g}" for name, value in values.items()}
        rows = [*self._rows(), row]
        columns = list(dict.fromkeys(name for row in rows for name in row))
        lines = [columns, *([row.get(name, "") for name in columns] for row in rows)]
        write_text(self.path, "".join(",".join(line) + "\n" for line in lines))

    def _rows(self) -> list[dict[str, str]]:
        """The rows written so far."""
        if not self.path.is_file():
            return []
        with open(self.path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def validation_values(logs: Logs | None) -> dict[str, float]:
    """Return the values of a validation from the logs of an epoch, sorted by name."""
    return {
        name: value
        for name, value in sorted((logs or {}).items())
        if name.startswith("val_") and name not in LEFT_OUT
    }

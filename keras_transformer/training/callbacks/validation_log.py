"""validation.csv: what the validation after each epoch of `fit` gave."""

import csv
from pathlib import Path

from keras_transformer.files.whole_files import write_text
from keras_transformer.training.callbacks.running_clock import CLOCK
from keras_transformer.training.callbacks.step_callback import StepCallback

LEFT_OUT = ("val_loss", "val_step_loss", "val_step_nll")


class ValidationLog(StepCallback):
    """Writes step, seconds since the start and the `val_` values, one row a validation.

    Some are left out: `val_loss`, which Keras averages over batches by their sentences (use
    `metrics.TokenLoss`), and `val_step_loss` and `val_step_nll`, which are those of the last batch.
    A value that is not measured at every validation, such as BLEU, leaves its cell empty.

    Args:
        path: the file, written anew with one more row; the rows of an existing one stay.
        elapsed: seconds that the training has taken already, before it went on here.
    """

    def __init__(self, path, elapsed=0.0):
        super().__init__()
        self.path = Path(path)
        self.elapsed = elapsed

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._began = CLOCK.seconds() - self.elapsed

    def on_epoch_end(self, epoch, logs=None):
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

    def _rows(self):
        """The rows written so far."""
        if not self.path.is_file():
            return []
        with open(self.path, encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))


def validation_values(logs):
    """Return the values of a validation among the logs of an epoch, by name in sorted order."""
    return {
        name: value
        for name, value in sorted((logs or {}).items())
        if name.startswith("val_") and name not in LEFT_OUT
    }

"""validation.csv: what the validation after each epoch of `fit` gave."""

import time
from pathlib import Path

from keras_transformer.training.step_callback import StepCallback

LEFT_OUT = ("val_loss", "val_step_loss")


class ValidationLog(StepCallback):
    """Writes step, seconds since the start and the `val_` values, one row a validation.

    Two are left out: `val_loss`, which Keras averages over batches by their sentences (use
    `metrics.TokenLoss`), and `val_step_loss`, which is that of the last batch.

    Args:
        path: the file; rows are appended if it exists.
    """

    def __init__(self, path):
        super().__init__()
        self.path = Path(path)

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._began = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        values = logs or {}
        names = sorted(name for name in values if name.startswith("val_") and name not in LEFT_OUT)
        if not names:
            return
        is_new = not self.path.is_file()
        seconds = time.perf_counter() - self._began
        with open(self.path, "a", encoding="utf-8", newline="\n") as file:
            if is_new:
                file.write(",".join(["step", "seconds", *names]) + "\n")
            cells = [str(self.step), f"{seconds:.1f}", *(f"{values[name]:.9g}" for name in names)]
            file.write(",".join(cells) + "\n")

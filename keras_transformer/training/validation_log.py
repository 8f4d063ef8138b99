"""validation.csv: what the validation after each virtual epoch gave."""

import time
from pathlib import Path

from keras_transformer.training.step_callback import StepCallback


class ValidationLog(StepCallback):
    """Writes step, seconds since the start and every `val_` value, one row a validation.

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
        values = {name: value for name, value in (logs or {}).items() if name.startswith("val_")}
        if not values:
            return
        names = sorted(values)
        is_new = not self.path.is_file()
        seconds = time.perf_counter() - self._began
        with open(self.path, "a", encoding="utf-8", newline="\n") as file:
            if is_new:
                file.write(",".join(["step", "seconds", *names]) + "\n")
            cells = [str(self.step), f"{seconds:.1f}", *(f"{values[name]:.9g}" for name in names)]
            file.write(",".join(cells) + "\n")

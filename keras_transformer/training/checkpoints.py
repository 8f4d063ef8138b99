"""Weights kept while training: the last few, and the best."""

import json
import math

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.errors import TrainingDiverged
from keras_transformer.run_directory import copy_file, write_json
from keras_transformer.training.step_callback import StepCallback
from keras_transformer.training.weights import save_weights, weights_are_finite


class Checkpoints(StepCallback):
    """Saves the weights at each epoch's end, keeps the last n files, and the best of all.

    Weights that are not finite numbers are never saved. Every file is written beside and renamed.

    Args:
        run: the `RunDirectory`.
        keep_last: positive integer, how many step files to keep.
        save_every: also save every so many steps. None: at the end of epochs only.
        monitor: the value by which weights are best. None: none are.
        mode: "min" or "max", which values of `monitor` are better.
    """

    def __init__(self, run, keep_last=5, save_every=None, monitor="val_perplexity", mode="min"):
        super().__init__()
        check_positive_int("keep_last", keep_last)
        check_one_of("mode", mode, ("min", "max"))
        self.run = run
        self.keep_last = keep_last
        self.save_every = save_every
        self.monitor = monitor
        self.mode = mode
        self.best_value = None
        self._saved_step = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self.run.checkpoints_path.mkdir(parents=True, exist_ok=True)
        if self.run.best_record_path.is_file():
            self.best_value = json.loads(self.run.best_record_path.read_text())["value"]

    def on_step_end(self, logs):
        every = self.save_every
        if every and self.step // every > self.previous_step // every:
            self.save()

    def on_epoch_end(self, epoch, logs=None):
        path = self.save()
        value = (logs or {}).get(self.monitor)
        if value is not None and self._is_better(value):
            self._keep_best(path, float(value))

    def save(self):
        """Save the weights of the current step, if they are not saved yet; return the file."""
        path = self.run.checkpoint_path(self.step)
        if self._saved_step == self.step:
            return path
        if not weights_are_finite(self.model):
            raise TrainingDiverged(
                f"Weights are no longer finite numbers at step {self.step}. {self.last_good()}"
            )
        save_weights(self.model, path)
        self._saved_step = self.step
        for old in self.run.checkpoints()[: -self.keep_last]:
            old.unlink()
        return path

    def last_good(self):
        """Return a sentence that names the last good checkpoint."""
        paths = self.run.checkpoints()
        return f"The last good checkpoint is {paths[-1]}." if paths else "No checkpoint was saved."

    def _is_better(self, value):
        if not math.isfinite(value):
            return False
        if self.best_value is None:
            return True
        return value < self.best_value if self.mode == "min" else value > self.best_value

    def _keep_best(self, path, value):
        copy_file(path, self.run.best_path)
        self.best_value = value
        record = {"step": self.step, "monitor": self.monitor, "value": value}
        write_json(self.run.best_record_path, record)

"""Weights kept while training: the last few, and the best few."""

import math

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.errors import TrainingDiverged
from keras_transformer.runs.model_weights import save_weights, weights_are_finite
from keras_transformer.training.callbacks.step_callback import StepCallback


class Checkpoints(StepCallback):
    """Saves the weights at each epoch's end; keeps the last n files and those with the best values.

    Weights that are not finite numbers are never saved. Every file is written beside and renamed.
    The best of all is copied to `run.checkpoints.best_path` too. `best.json` beside it tells its
    step and value, under "kept" those of the best few, best first, and `keep_last`.

    Args:
        run: the `RunDirectory`.
        keep_last: positive integer, how many of the last step files to keep.
        keep_best: positive integer, how many of the best step files to keep besides.
        save_every: also save every so many steps. None: at the end of epochs only.
        monitor: the value by which weights are best. An epoch without it ranks nothing. None: no
            epoch does.
        mode: "min" or "max", which values of `monitor` are better.
        remove_old: whether to remove the other step files at each checkpoint. Who saves a state of
            the training too calls `remove_old_files` after it: the state before speaks of them.

    Raises:
        TrainingDiverged: a weight is no finite number.
        CannotWrite: the disk is full, or another error of the operating system.
    """

    def __init__(
        self,
        run,
        keep_last=5,
        keep_best=1,
        save_every=None,
        monitor="val_perplexity",
        mode="min",
        remove_old=True,
    ):
        super().__init__()
        check_positive_int("keep_last", keep_last)
        check_positive_int("keep_best", keep_best)
        check_one_of("mode", mode, ("min", "max"))
        self.run = run
        self.keep_last = keep_last
        self.keep_best = keep_best
        self.save_every = save_every
        self.monitor = monitor
        self.mode = mode
        self.remove_old = remove_old
        self._kept = []
        self._saved_step = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self.run.checkpoints.directory.mkdir(parents=True, exist_ok=True)
        self._kept = self._kept_before()
        record = self.run.checkpoints.best_record()
        if record and record.get("keep_last") != self.keep_last:
            self.run.checkpoints.write_best_record({**record, "keep_last": self.keep_last})

    def on_step_end(self, logs):
        if self.save_every and self.passed_multiple_of(self.save_every):
            self.save()

    def on_epoch_end(self, epoch, logs=None):
        path = self.save()
        value = (logs or {}).get(self.monitor)
        if value is not None and math.isfinite(value):
            self._rank(path, float(value))

    def save(self):
        """Save the weights of the current step, if they are not saved yet; return the file."""
        path = self.run.checkpoints.path_of(self.step)
        if self._saved_step == self.step:
            return path
        if not weights_are_finite(self.model):
            raise TrainingDiverged(
                f"Weights are no longer finite numbers at step {self.step}. {self.last_good()}"
            )
        save_weights(self.model, path)
        self._saved_step = self.step
        if self.remove_old:
            self.remove_old_files()
        return path

    def last_good(self):
        """Return a sentence that names the last good checkpoint."""
        paths = self.run.checkpoints.paths()
        return f"The last good checkpoint is {paths[-1]}." if paths else "No checkpoint was saved."

    def _kept_before(self):
        """What a training that goes on has ranked already, by the same value."""
        record = self.run.checkpoints.best_record()
        return record.get("kept", []) if record.get("monitor") == self.monitor else []

    def _rank(self, path, value):
        """Put the checkpoint of this step among the best, if it is one of them."""
        others = [kept for kept in self._kept if kept["step"] != self.step]
        sign = 1 if self.mode == "min" else -1
        ranked = sorted(  # among equals the earlier one stays in front
            [*others, {"step": self.step, "value": value}], key=lambda kept: sign * kept["value"]
        )[: self.keep_best]
        if ranked == self._kept:
            return
        if ranked[0]["step"] == self.step:
            self.run.checksums.copy(path, self.run.checkpoints.best_path)
        self._kept = ranked
        self.run.checkpoints.write_best_record(
            {**ranked[0], "monitor": self.monitor, "kept": ranked, "keep_last": self.keep_last}
        )
        if self.remove_old:
            self.remove_old_files()

    def remove_old_files(self):
        """Remove the step files that are neither among the last nor among the best."""
        best = {self.run.checkpoints.path_of(kept["step"]) for kept in self._kept}
        for path in self.run.checkpoints.paths()[: -self.keep_last]:
            if path not in best:
                path.unlink()

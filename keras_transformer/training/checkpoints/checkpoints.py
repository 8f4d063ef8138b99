"""Weights kept during training: the last few and the best few."""

import math
from collections.abc import Collection
from pathlib import Path
from typing import Literal

from keras_transformer.argument_checks import check_one_of, check_positive_int, python_number
from keras_transformer.errors import TrainingDiverged
from keras_transformer.runs.adapter_weights import save_adapters, trains_adapters_alone
from keras_transformer.runs.model_weights import save_base, save_weights, weights_are_finite
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_records import KeptCheckpoint
from keras_transformer.training.callbacks.step_callback import Logs, StepCallback


class Checkpoints(StepCallback):
    """Saves the weights at the end of each epoch; keeps the last files and the best ones.

    If only adapters are trained (`training.enable_lora`), the files hold the adapters, and
    `run.checkpoints.base_path` holds the weights to which they belong.

    Weights that are not finite are never saved. A file appears whole or not at all. The best file
    is also copied to `run.checkpoints.best_path`, with `best.json` beside it. That file holds the
    step and the value of the best, of the best few under "kept", best first, and `keep_last`.

    Args:
        run: the run to write to.
        keep_last: positive integer, number of last files to keep.
        keep_best: positive integer, number of best files to keep as well.
        save_every: also save every `save_every` steps. None means only at the end of epochs.
        monitor: name of the value that ranks checkpoints. Epochs without this value are not ranked.
            None means that no epoch is ranked.
        mode: which values of `monitor` are better.
        remove_old: whether to remove older files at each checkpoint. If a state of the training is
            saved too, call `remove_old_files` after it instead, because the previous state refers
            to these files.

    Raises:
        TrainingDiverged: a weight is not finite.
        CannotWrite: the disk is full, or the operating system reports another error.
    """

    def __init__(
        self,
        run: RunDirectory,
        keep_last: int = 5,
        keep_best: int = 1,
        save_every: int | None = None,
        monitor: str | None = "val_perplexity",
        mode: Literal["min", "max"] = "min",
        remove_old: bool = True,
    ) -> None:
        super().__init__()
        check_positive_int("keep_last", keep_last)
        check_positive_int("keep_best", keep_best)
        check_one_of("mode", mode, ("min", "max"))
        self.run = run
        self.keep_last = python_number(keep_last)
        self.keep_best = python_number(keep_best)
        self.save_every = save_every
        self.monitor = monitor
        self.mode = mode
        self.remove_old = remove_old
        self._kept: list[KeptCheckpoint] = []
        self._saved_step: int | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        self.run.checkpoints.directory.mkdir(parents=True, exist_ok=True)
        base_path = self.run.checkpoints.base_path
        if trains_adapters_alone(self.model) and not (self.first_step and base_path.is_file()):
            save_base(self.model, base_path)
        self._kept = self._kept_before()
        record = self.run.checkpoints.best_record()
        if record and record.get("keep_last") != self.keep_last:
            self.run.checkpoints.write_best_record({**record, "keep_last": self.keep_last})

    def on_step_end(self, logs: Logs) -> None:
        if self.save_every and self.passed_multiple_of(self.save_every):
            self.save()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        path = self.save()
        value = None if self.monitor is None else (logs or {}).get(self.monitor)
        if value is not None and math.isfinite(value):
            self._rank(path, float(value))

    def save(self) -> Path:
        """Save the weights of the current step, unless they are saved already; return the file."""
        path = self.run.checkpoints.path_of(self.step)
        if self._saved_step == self.step:
            return path
        if not weights_are_finite(self.model):
            raise TrainingDiverged(
                f"Weights are no longer finite numbers at step {self.step}. {self.last_good()}"
            )
        save = save_adapters if trains_adapters_alone(self.model) else save_weights
        save(self.model, path)
        self._saved_step = self.step
        if self.remove_old:
            self.remove_old_files()
        return path

    def last_good(self) -> str:
        """Return a sentence that names the last good checkpoint."""
        paths = self.run.checkpoints.paths()
        return f"The last good checkpoint is {paths[-1]}." if paths else "No checkpoint was saved."

    def _kept_before(self) -> list[KeptCheckpoint]:
        """The ranking of a resumed training, if it was by the same value."""
        record = self.run.checkpoints.best_record()
        return record.get("kept", []) if record.get("monitor") == self.monitor else []

    def _rank(self, path: Path, value: float) -> None:
        """Put the checkpoint of this step among the best, if it is one of them."""
        others = [kept for kept in self._kept if kept["step"] != self.step]
        sign = 1 if self.mode == "min" else -1
        this: KeptCheckpoint = {"step": self.step, "value": value}
        # Among equals, the earlier one stays in front.
        ranked = sorted([*others, this], key=lambda kept: sign * kept["value"])[: self.keep_best]
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

    def remove_old_files(self, breaks: Collection[int] = ()) -> None:
        """Remove the step files that are neither among the last nor among the best.

        Args:
            breaks: steps whose files are removed unless they are among the best: an uninterrupted
                training would not have them.
        """
        best = {self.run.checkpoints.path_of(kept["step"]) for kept in self._kept}
        paths = self.run.checkpoints.paths()
        of_breaks = [path for path in paths if step_of(path) in breaks]
        last = [path for path in paths if path not in of_breaks][-self.keep_last :]
        for path in paths:
            if path not in best and path not in last:
                path.unlink()

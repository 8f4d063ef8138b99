"""Saving the last and the best checkpoints, and averaging checkpoints."""

import contextlib
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import h5py
import keras
import numpy as np

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    is_number,
    python_number,
)
from keras_transformer.errors import TrainingDiverged, UserInputError
from keras_transformer.files import sync, write_bytes
from keras_transformer.runs.checksums import keeping_in_run
from keras_transformer.runs.model_weights import (
    holds_adapters,
    merge_adapters,
    not_finite,
    save_adapters,
    save_base,
    save_weights,
    trains_adapters_alone,
    weights_are_finite,
)
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_records import KeptCheckpoint
from keras_transformer.runs.weight_files import StoredWeights, make_weight_file, open_weights
from keras_transformer.training.callbacks.step_callback import CLOCK, EMAWeights, Logs, StepCallback
from keras_transformer.training.checkpoints.training_state import (
    TrainingState,
    remove_old_states,
    save_state,
)
from keras_transformer.training.devices.devices import Devices
from keras_transformer.types import PathLike


class Checkpoints(StepCallback):
    """Saves the weights at the end of each epoch, keeping the last and the best files.

    If only adapters are trained (`training.enable_lora`), the files contain the adapters, and
    `run.checkpoints.base_path` contains the base weights.

    Weights that are not finite are never saved. Files are written atomically. The best file is also
    copied to `run.checkpoints.best_path`. Next to it, `best.json` stores its step and value, the
    best few under "kept" (best first), and `keep_last`.

    Args:
        run: run that receives the files.
        keep_last: positive integer, number of most recent files to keep.
        keep_best: positive integer, number of best files that are also kept.
        save_every: also save every `save_every` steps. None saves only after epochs.
        monitor: name of the value that ranks checkpoints. Epochs without this value are not ranked.
            None disables ranking.
        mode: whether lower ("min") or higher ("max") values of `monitor` are better.
        remove_old: whether to remove older files at each checkpoint. If a training state is also
            saved, call `remove_old_files` after the state is saved instead, because the previous
            state refers to these files.

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
        """Save the weights of the current step, unless already saved, and return the file."""
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
        """Return the ranking from before training was resumed, if based on the same value."""
        record = self.run.checkpoints.best_record()
        return record.get("kept", []) if record.get("monitor") == self.monitor else []

    def _rank(self, path: Path, value: float) -> None:
        """Add the checkpoint of this step to the best checkpoints, if it is good enough."""
        others = [kept for kept in self._kept if kept["step"] != self.step]
        sign = 1 if self.mode == "min" else -1
        this: KeptCheckpoint = {"step": self.step, "value": value}
        # If values are equal, the earlier checkpoint ranks first.
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
        """Remove step files that are among neither the most recent nor the best.

        Args:
            breaks: steps whose files are removed unless they are among the best, because an
                uninterrupted training run would not have them.
        """
        best = {self.run.checkpoints.path_of(kept["step"]) for kept in self._kept}
        paths = self.run.checkpoints.paths()
        of_breaks = [path for path in paths if step_of(path) in breaks]
        last = [path for path in paths if path not in of_breaks][-self.keep_last :]
        removed = (path for path in paths if path not in best and path not in last)
        self.run.checksums.remove(*removed)


def average_checkpoints(paths: Sequence[PathLike], destination: PathLike) -> None:
    """Write the arithmetic mean of weight files, computed in float64, one tensor at a time.

    Only the model's floating-point weights are averaged. Integers, such as the state of random
    generators, are taken from the last file; optimizer variables are omitted. If the files contain
    LoRA adapters, the merged weights are averaged and written.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: output file. If the file is in a run, its checksum is recorded in the run.

    Raises:
        UserInputError: `paths` is empty, a file cannot be read or is refused (see `open_weights`),
            weights are not finite, the files are from different models, or adapters are not
            from checkpoints of the same run.
    """
    if not paths:
        raise UserInputError("No checkpoints to average.")
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(open_weights(path)).without("optimizer/") for path in paths]
        for path, file in zip(paths, files, strict=True):
            _check_alike(path, file, paths[-1], files[-1])
        if holds_adapters(files[-1]):
            model = _base_model(paths)
            merge_adapters(model, paths, files)
            return save_weights(model, destination)
        content = make_weight_file(_means(paths, files))
    write_bytes(destination, content.getbuffer(), keeping_in_run(destination))


def average_best(
    paths: Sequence[PathLike],
    destination: PathLike,
    validation_value: Callable[[Path], float],
    most: int,
) -> int:
    """Average the last n checkpoints, choosing the n with the best validation value.

    A long training run benefits from a large n. In a short run, older checkpoints are too poor to
    help.

    Args:
        paths: `.weights.h5` files of one model, oldest first.
        destination: the file to write.
        validation_value: returns the value of a weight file, such as its validation perplexity;
            lower values are better.
        most: positive integer, the maximum n. The values 1, 2, 4, ... and `most` are tried.

    Returns:
        The best n.

    Raises:
        UserInputError: see `average_checkpoints`.
    """
    check_positive_int("most", most)
    most = min(int(most), len(paths))
    destination = Path(destination)
    candidate = destination.with_name(f".candidate-{destination.name}")
    values = {}
    try:
        for n in sorted({most, *(2**power for power in range(most.bit_length()))}):
            average_checkpoints(paths[-n:], candidate)
            values[n] = validation_value(candidate)
    finally:
        candidate.unlink(missing_ok=True)
    best = min(values, key=values.__getitem__)
    average_checkpoints(paths[-best:], destination)
    return best


def _base_model(paths: Sequence[PathLike]) -> keras.Model:
    """Return the model to which the adapters in the files belong."""
    directories = {Path(path).resolve().parent for path in paths}
    if len(directories) > 1:
        raise UserInputError(
            "Adapters must be checkpoints of one run to be averaged. Received: files in "
            f"{', '.join(sorted(map(str, directories)))}"
        )
    run = RunDirectory.open(directories.pop().parent)
    return run.load_model(run.checkpoints.base_path)


def _means(
    paths: Sequence[PathLike], files: Sequence[StoredWeights]
) -> Iterator[tuple[h5py.Dataset, np.ndarray]]:
    """Yield each dataset of the last file with its mean over all files as an array."""
    for name, dataset in files[-1].items():
        if not np.issubdtype(dataset.dtype, np.floating):
            yield dataset, dataset[...]
            continue
        total = np.zeros(dataset.shape)
        for path, file in zip(paths, files, strict=True):
            values = file[name][...]
            if not np.isfinite(values).all():
                raise not_finite(path)
            total += values
        total /= len(files)
        yield dataset, total


def _check_alike(
    path: PathLike,
    file: StoredWeights,
    last_path: PathLike,
    last_file: StoredWeights,
) -> None:
    """Require the same array names, shapes and types in both files.

    Files from earlier versions lack the layer options.
    """
    names = file.keys() | last_file.keys()
    options = {name for name in file.keys() ^ last_file.keys() if name.endswith("/options")}
    for name in sorted(names - options):
        one, other = (_description(datasets.get(name)) for datasets in (file, last_file))
        if one != other:
            raise UserInputError(
                f"The checkpoints belong to different models: {name} is {one} in {path} and "
                f"{other} in {last_path}."
            )


def _description(dataset: h5py.Dataset | None) -> str:
    return "missing" if dataset is None else f"{dataset.dtype}{list(dataset.shape)}"


class DeviceTime:
    """Measures wall-clock time multiplied by the number of devices, starting when created.

    Args:
        devices: the devices.
        elapsed: seconds of training before it was resumed, counted for the same devices unless
            `progress` is set.

    Attributes:
        progress: JSON-compatible state for resuming: `device`, `number` and `seconds`. None marks a
            value that has changed.
    """

    def __init__(self, devices: Devices, elapsed: float = 0.0) -> None:
        self._device: str | None = devices.device_name
        self._number: int | None = devices.replicas
        self._before: float | None = elapsed * devices.replicas
        self._replicas = devices.replicas
        self._began = CLOCK.seconds()

    @property
    def seconds(self) -> float | None:
        """Seconds times devices, or None if the devices were of different kinds."""
        if self._before is None:
            return None
        return self._before + (CLOCK.seconds() - self._began) * self._replicas

    @property
    def changed(self) -> bool:
        """Whether the type or number of devices changed when the run was resumed."""
        return self._number is None

    @property
    def progress(self) -> dict[str, Any]:
        return {"device": self._device, "number": self._number, "seconds": self.seconds}

    @progress.setter
    def progress(self, progress: dict[str, Any]) -> None:
        seconds = progress["seconds"]
        if seconds is not None and not is_number(seconds):
            raise TypeError("seconds")
        if progress["number"] != self._number:
            self._number = None
        if progress["device"] == self._device:
            self._before = seconds
        else:
            self._device = self._number = self._before = None


class Progress:
    """Time and counters of an entire training run, across interruptions.

    Args:
        counters: objects with a JSON-compatible `progress` attribute, set when resuming.
        state: state from which training resumes, or None.
    """

    def __init__(self, counters: Mapping[str, Any], state: TrainingState | None = None) -> None:
        earlier = state.progress if state else {}
        self._counters = counters
        self._began = CLOCK.seconds() - earlier.get("seconds", 0.0)
        for name in counters.keys() & earlier.keys():
            try:
                counters[name].progress = earlier[name]
            except (TypeError, ValueError, KeyError, AttributeError, IndexError) as error:
                path = state.path if state else None
                raise UserInputError(
                    f"The state {path} is damaged: its `{name}` is not what was written."
                ) from error

    @property
    def seconds(self) -> float:
        """Wall-clock time, excluding breaks and periods in which the process was stopped."""
        return CLOCK.seconds() - self._began

    def values(self) -> dict[str, Any]:
        """Return the JSON-compatible values to store in a state."""
        counts = {name: counter.progress for name, counter in self._counters.items()}
        return {"seconds": self.seconds, **counts}


class SavedStates(StepCallback):
    """Saves a `TrainingState` at the end of each epoch, and then removes old states and weights.

    Place this callback after all callbacks that write or count, because the state records their
    progress. With `average`, a state contains the actual weights, not their average. `record` is
    the constant part of a state: `settings` and `data_fingerprint`.
    """

    def __init__(
        self,
        run: RunDirectory,
        checkpoints: Checkpoints,
        progress: Progress,
        *,
        average: EMAWeights | None = None,
        save_every: int,
        **record: Any,
    ) -> None:
        super().__init__()
        self.run = run
        self.checkpoints = checkpoints
        self.progress = progress
        self.average = average
        self.save_every = save_every
        self._record = record
        self._epoch_ended_at: int | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        if self.step == 0:
            # Training can only be resumed from a state, so save the first state now.
            self._save(None, validation_due=False)
        else:
            self._remove_old_files()  # the process may have been killed right after saving a state

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch_ended_at = self.step
        self._save_values()

    def save_all(self) -> None:
        """Save weights and state after the current step, even within an epoch."""
        if self.average is not None:
            self.average.put_in()
        self.checkpoints.save()
        self._save_values()

    def _save_values(self) -> None:
        ends_epoch = self.step % self.save_every == 0 or self.model.stop_training
        self._save(self.model, bool(ends_epoch) and self._epoch_ended_at != self.step)
        self._remove_old_files()

    def _remove_old_files(self) -> None:
        # Files saved within an epoch by Ctrl-C or a time limit, after training has continued.
        steps = map(step_of, [*self.run.checkpoints.paths(), *self.run.checkpoints.states()])
        breaks = {step for step in steps if step < self.step and step % self.save_every}
        remove_old_states(self.run, breaks)
        self.checkpoints.remove_old_files(breaks)

    def _save(self, model: keras.Model | None, validation_due: bool) -> None:
        for path in (self.run.metrics_path, self.run.validation_path, self.run.layers_path):
            if path.is_file():
                sync(path)  # the log rows before a saved state must not be lost
        best = {"best": self.run.checkpoints.best_record(), "validation_due": validation_due}
        save_state(
            self.run,
            self.step,
            model,
            weights=None if self.average is None else self.average.of_last_step,
            progress={**self.progress.values(), **best},
            **self._record,
        )

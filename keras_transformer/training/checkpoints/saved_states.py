"""The state of a training, saved after the other files of a checkpoint."""

from collections.abc import Mapping
from typing import Any, Protocol, TypedDict

import keras

from keras_transformer.argument_checks import is_number
from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import sync
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.callbacks.ema_weights import EMAWeights
from keras_transformer.training.callbacks.step_callback import CLOCK, Logs, StepCallback
from keras_transformer.training.checkpoints.checkpoints import Checkpoints
from keras_transformer.training.checkpoints.training_state import (
    TrainingState,
    remove_old_states,
    remove_states,
    save_state,
)
from keras_transformer.training.devices.devices import Devices


class DeviceProgress(TypedDict):
    """What a resumed `DeviceTime` continues from; None marks what has changed."""

    device: str | None
    number: int | None
    seconds: float | None


class DeviceTime:
    """Counts wall-clock time times the number of devices, from its creation on.

    Args:
        devices: the devices.
        elapsed: seconds that the training took before it was resumed. They count for the same
            devices, unless `progress` is set.

    Attributes:
        progress: a `DeviceProgress`, from which a resumed training continues.
    """

    def __init__(self, devices: Devices, elapsed: float = 0.0) -> None:
        self._device: str | None = devices.device_name
        self._number: int | None = devices.replicas
        self._before: float | None = elapsed * devices.replicas
        self._replicas = devices.replicas
        self._began = CLOCK.seconds()

    @property
    def seconds(self) -> float | None:
        """Seconds times devices; None if the devices were of several kinds."""
        if self._before is None:
            return None
        return self._before + (CLOCK.seconds() - self._began) * self._replicas

    @property
    def changed(self) -> bool:
        """Whether the kind or number of the devices changed at a resume."""
        return self._number is None

    @property
    def progress(self) -> DeviceProgress:
        return {"device": self._device, "number": self._number, "seconds": self.seconds}

    @progress.setter
    def progress(self, progress: DeviceProgress) -> None:
        seconds = progress["seconds"]
        if seconds is not None and not is_number(seconds):
            raise TypeError("seconds")
        if progress["number"] != self._number:
            self._number = None
        if progress["device"] == self._device:
            self._before = seconds
        else:
            self._device = self._number = self._before = None


class Counter(Protocol):
    """An object with a JSON-compatible `progress`, which can be set to continue from it."""

    progress: Any


class Progress:
    """Time and counts of a whole training, across all resumes."""

    def __init__(self, counters: Mapping[str, Counter], state: TrainingState | None = None) -> None:
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
        """Wall-clock time, excluding breaks and time in which the process was stopped."""
        return CLOCK.seconds() - self._began

    def values(self) -> dict[str, Any]:
        """What a state keeps, JSON-compatible."""
        counts = {name: counter.progress for name, counter in self._counters.items()}
        return {"seconds": self.seconds, **counts}


class SavedStates(StepCallback):
    """Saves a `TrainingState` at the end of each epoch; then removes old states and weights.

    Place it after every callback that writes or counts, since the state records what they did.
    With `average`, a state holds the weights themselves, not their average.
    """

    def __init__(
        self,
        run: RunDirectory,
        checkpoints: Checkpoints,
        progress: Progress,
        *,
        average: EMAWeights | None = None,
        save_every: int,
        settings: dict[str, Any] | None = None,
        data_fingerprint: str | None = None,
    ) -> None:
        super().__init__()
        self.run = run
        self.checkpoints = checkpoints
        self.progress = progress
        self.average = average
        self.save_every = save_every
        self._settings = settings
        self._data_fingerprint = data_fingerprint
        self._epoch_ended_at: int | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        super().on_train_begin(logs)
        if self.step == 0:
            # A training can only be resumed from a state: from here on, there is one.
            self._save(None, validation_due=False)
        else:
            self._remove_old_files()  # the process may have been killed right after the state

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self._epoch_ended_at = self.step
        self._save_values()

    def save_all(self) -> None:
        """Save weights and state after the current step, even in the middle of an epoch."""
        if self.average is not None:
            self.average.put_in()
        self.checkpoints.save()
        self._save_values()

    def _save_values(self) -> None:
        ends_epoch = self.step % self.save_every == 0 or self.model.stop_training
        self._save(self.model, bool(ends_epoch) and self._epoch_ended_at != self.step)
        self._remove_old_files()

    def _remove_old_files(self) -> None:
        # Files that Ctrl-C or a time limit saved within an epoch, once the training has continued.
        steps = map(step_of, [*self.run.checkpoints.paths(), *self.run.checkpoints.states()])
        breaks = {step for step in steps if step < self.step and step % self.save_every}
        remove_states(self.run, breaks)
        self.checkpoints.remove_old_files(breaks)
        remove_old_states(self.run)

    def _save(self, model: keras.Model | None, validation_due: bool) -> None:
        for path in (self.run.metrics_path, self.run.validation_path, self.run.layers_path):
            if path.is_file():
                sync(path)  # rows from before the state must not be lost if the state is kept
        best = {"best": self.run.checkpoints.best_record(), "validation_due": validation_due}
        save_state(
            self.run,
            self.step,
            model,
            weights=None if self.average is None else self.average.of_last_step,
            settings=self._settings,
            data_fingerprint=self._data_fingerprint,
            progress={**self.progress.values(), **best},
        )

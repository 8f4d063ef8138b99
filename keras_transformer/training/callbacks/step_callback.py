"""Base classes of the callbacks: updates and time counted while `fit` runs, and their clock."""

import time
from collections.abc import Hashable
from typing import Any, TypeAlias

import keras

from keras_transformer.argument_checks import is_number
from keras_transformer.evaluation.cost.step_work import StepWork

Logs: TypeAlias = dict[str, float]  # as `fit` hands them to callbacks


class RunningClock:
    """Counts seconds, except while the process is stopped, for example by SIGSTOP or Ctrl-Z.

    The system does not report when a stop began, so the time since the last reading before it is
    left out too: part of one step, or of one validation. `stops` counts the stops.
    """

    def __init__(self) -> None:
        self.stops = 0
        self._left_out = 0.0
        self._last = time.perf_counter()

    def seconds(self) -> float:
        """Seconds since an arbitrary moment."""
        self._last = time.perf_counter()
        return self._last - self._left_out

    def went_on(self) -> None:
        """Leave out the time since the last reading; called at SIGCONT."""
        now = time.perf_counter()
        self._left_out += now - self._last
        self._last = now
        self.stops += 1


CLOCK = RunningClock()  # of this process, as `time.perf_counter` is


class StepCallback(keras.callbacks.Callback):
    """A callback that knows the global step, from 1, and the time spent in training steps.

    Keras numbers batches from 0 in each epoch, and with `steps_per_execution` calls back once for
    several batches. `previous_step` and `step` are the updates done before and after such a call.
    `step_seconds` is its time, including input; ignore it if the process `was_stopped`. A resumed
    training counts from `steps_done` in the logs of `on_train_begin`, or else from the optimizer's
    updates, which exclude steps that overflowed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first_step = self.step = self.previous_step = 0
        self.step_seconds = 0.0
        self.was_stopped = False

    def on_train_begin(self, logs: Logs | None = None) -> None:
        updates = keras.ops.convert_to_numpy(self.model.optimizer.iterations)
        self.first_step = int((logs or {}).get("steps_done", updates))
        self.step = self.previous_step = self.first_step

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self._steps_before_epoch = self.step

    def on_train_batch_begin(self, batch: int, logs: Logs | None = None) -> None:
        self._batch_began = CLOCK.seconds()
        self._stops_before_batch = CLOCK.stops

    def on_train_batch_end(self, batch: int, logs: Logs | None = None) -> None:
        self.step_seconds = CLOCK.seconds() - self._batch_began
        self.was_stopped = CLOCK.stops > self._stops_before_batch
        self.previous_step = self.step
        self.step = self._steps_before_epoch + batch + 1
        self.on_step_end(logs or {})

    def on_step_end(self, logs: Logs) -> None:
        """Called after `step` updates, with the values of the model's metrics."""

    def passed_multiple_of(self, steps: int) -> bool:
        """Whether the updates since `previous_step` reached a multiple of `steps`."""
        return self.step // steps > self.previous_step // steps


class StepTotals:
    """Sums over steps: `steps`, `seconds`, target `tokens`, and `flops` if they are known."""

    def __init__(self, work: StepWork) -> None:
        self._work = work
        self.restart()

    def restart(self) -> None:
        """Set all sums to 0."""
        self.steps = self.tokens = 0
        self.seconds = 0.0
        self.flops = None if self._work.flops is None else 0

    def add(self, callback: StepCallback) -> None:
        """Add the updates that a callback has just been told about."""
        steps = range(callback.previous_step, callback.step)
        self.steps += len(steps)
        self.seconds += callback.step_seconds
        self.tokens += self._work.total("target_tokens", steps)
        flops = self._work.total("flops", steps)
        if self.flops is not None and flops is not None:
            self.flops += flops

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second, 0 before the first step."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def step_seconds(self) -> float:
        """Mean time of a step in seconds, 0 before the first."""
        return self.seconds / self.steps if self.steps else 0.0

    @property
    def flop_utilisation(self) -> float | None:
        """Share of the devices' peak speed that was used; None if unknown."""
        peak = self._work.peak_flops
        if peak is None or self.flops is None or not self.seconds > 0:
            return None
        return self.flops / self.seconds / peak

    @property
    def progress(self) -> dict[str, float | None]:
        """The sums by name, JSON-compatible; set them to continue a training."""
        return {name: getattr(self, name) for name in ("steps", "seconds", "tokens", "flops")}

    @progress.setter
    def progress(self, progress: dict[str, float | None]) -> None:
        for name in ("steps", "seconds", "tokens", "flops"):
            value = progress[name]
            if not is_number(value) and not (name == "flops" and value is None):
                raise TypeError(name)
            setattr(self, name, value)


class StepMeter(StepCallback):
    """Sums the steps of a training: all of them in `all_steps`, those at full speed in `rate`.

    `rate` leaves out steps that trace or compile (the first after each start, or the first of each
    shape if every shape is compiled) and steps in which the process was stopped.
    """

    def __init__(self, work: StepWork) -> None:
        super().__init__()
        self._work = work
        self._shapes: set[Hashable] = set()
        self.all_steps = StepTotals(work)
        self.rate = StepTotals(work)

    @property
    def progress(self) -> dict[str, Any]:
        """Both sums, JSON-compatible; set them to continue a training."""
        return {"all_steps": self.all_steps.progress, "rate": self.rate.progress}

    @progress.setter
    def progress(self, progress: dict[str, Any]) -> None:
        self.all_steps.progress, self.rate.progress = progress["all_steps"], progress["rate"]

    def on_step_end(self, logs: Logs) -> None:
        self.all_steps.add(self)
        if not self._meets_new_shape() and not self.was_stopped:
            self.rate.add(self)

    def _meets_new_shape(self) -> bool:
        steps = range(self.previous_step, self.step)
        new = set(map(self._work.shape_to_compile, steps)) - self._shapes
        self._shapes |= new
        return bool(new)

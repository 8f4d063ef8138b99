"""Base classes for callbacks, and the moving average of weights."""

import time
from collections.abc import Hashable
from typing import Any, TypeAlias

import keras
import numpy as np

from keras_transformer.argument_checks import is_number
from keras_transformer.evaluation.step_work import StepWork
from keras_transformer.optimizers import inner_optimizer

Logs: TypeAlias = dict[str, float]  # as passed to callbacks by `fit`


class RunningClock:
    """Counts seconds, except while the process is stopped, for example by SIGSTOP or Ctrl-Z.

    The system does not report when a stop began, so the time since the preceding clock reading,
    which is part of a step or a validation, is also excluded. `stops` counts the stops.
    """

    def __init__(self) -> None:
        self.stops = 0
        self._left_out = 0.0
        self._last = time.perf_counter()

    def seconds(self) -> float:
        """Return the seconds since an arbitrary starting point."""
        self._last = time.perf_counter()
        return self._last - self._left_out

    def went_on(self) -> None:
        """Exclude the time since the last reading. Called on SIGCONT."""
        now = time.perf_counter()
        self._left_out += now - self._last
        self._last = now
        self.stops += 1


CLOCK = RunningClock()  # clock of this process, like `time.perf_counter`


class StepCallback(keras.callbacks.Callback):
    """A callback that tracks the global step, starting at 1, and the time spent in training steps.

    Keras numbers batches from 0 in each epoch and, with `steps_per_execution`, makes one call for
    several batches. `previous_step` and `step` are the numbers of updates before and after these
    batches. `step_seconds` is their time, including input; ignore it if `was_stopped` is true. If
    training was resumed, counting starts at `steps_done` in the logs of `on_train_begin`. Without
    `steps_done`, it starts at the optimizer's update count, which excludes steps that overflowed.
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
        """Handle the end of update `step`, with the values of the model's metrics."""

    def passed_multiple_of(self, steps: int) -> bool:
        """Whether the updates since `previous_step` reached a multiple of `steps`."""
        return self.step // steps > self.previous_step // steps


class StepTotals:
    """Sums over steps: `steps`, `seconds`, target `tokens`, and, if known, `flops`."""

    def __init__(self, work: StepWork) -> None:
        self._work = work
        self.restart()

    def restart(self) -> None:
        """Reset all sums to 0."""
        self.steps = self.tokens = 0
        self.seconds = 0.0
        self.flops = None if self._work.flops is None else 0

    def add(self, callback: StepCallback) -> None:
        """Add the updates of the latest call to a callback."""
        steps = range(callback.previous_step, callback.step)
        self.steps += len(steps)
        self.seconds += callback.step_seconds
        self.tokens += self._work.total("target_tokens", steps)
        flops = self._work.total("flops", steps)
        if self.flops is not None and flops is not None:
            self.flops += flops

    @property
    def tokens_per_second(self) -> float:
        """Target tokens per second, or 0 before the first step."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def step_seconds(self) -> float:
        """Mean time of a step in seconds, or 0 before the first step."""
        return self.seconds / self.steps if self.steps else 0.0

    @property
    def flop_utilisation(self) -> float | None:
        """Fraction of the devices' peak speed that is used, or None if unknown."""
        peak = self._work.peak_flops
        if peak is None or self.flops is None or not self.seconds > 0:
            return None
        return self.flops / self.seconds / peak

    @property
    def progress(self) -> dict[str, float | None]:
        """The JSON-compatible sums by name. Set this property to resume training."""
        return {name: getattr(self, name) for name in ("steps", "seconds", "tokens", "flops")}

    @progress.setter
    def progress(self, progress: dict[str, float | None]) -> None:
        for name in ("steps", "seconds", "tokens", "flops"):
            value = progress[name]
            if not is_number(value) and not (name == "flops" and value is None):
                raise TypeError(name)
            setattr(self, name, value)


class StepMeter(StepCallback):
    """Sums over training steps: all steps in `all_steps`, and steps at full speed in `rate`.

    `rate` excludes steps that trace or compile (the first step after each start, or the first step
    with each shape if all shapes are compiled) and steps in which the process was stopped.
    """

    def __init__(self, work: StepWork) -> None:
        super().__init__()
        self._work = work
        self._shapes: set[Hashable] = set()
        self.all_steps = StepTotals(work)
        self.rate = StepTotals(work)

    @property
    def progress(self) -> dict[str, Any]:
        """Both sums in JSON-compatible form. Set this property to resume training."""
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


class EMAWeights(keras.callbacks.Callback):
    """Loads the moving average of the weights into the model at the end of each epoch.

    Validation and later callbacks use the average. The next epoch continues from the exact weights
    after the last step. When `fit` ends, the model contains the average.

    `keras.callbacks.SwapEMAWeights` swaps by adding and subtracting, which causes rounding errors.
    If training ends early, that callback leaves the weights of the last step in the model.

    The optimizer of the model needs `use_ema=True`. The average starts with the weights after the
    first update; then `average = momentum * average + (1 - momentum) * weights`.

    Raises:
        ValueError: the optimizer does not keep an average.
    """

    def __init__(self) -> None:
        super().__init__()
        self._weights: list[np.ndarray] | None = None

    def on_train_begin(self, logs: Logs | None = None) -> None:
        if not keeps_average(self.model.optimizer):
            raise ValueError("`EMAWeights` needs an optimizer with `use_ema=True`")

    def on_epoch_begin(self, epoch: int, logs: Logs | None = None) -> None:
        self.take_out()

    def on_test_begin(self, logs: Logs | None = None) -> None:
        self.put_in()

    def on_epoch_end(self, epoch: int, logs: Logs | None = None) -> None:
        self.put_in()

    def on_train_end(self, logs: Logs | None = None) -> None:
        self._weights = None  # `fit` has loaded the average permanently
        _own_values(self.model)

    @property
    def of_last_step(self) -> list[np.ndarray] | None:
        """Return the weights for continuing training, or None if the model contains them."""
        return self._weights

    def put_in(self) -> None:
        """Load the average into the model, unless already loaded or not yet available.

        The average exists after the first update. In float16, steps that overflow are not updates.
        """
        model = self.model
        if self._weights is None and int(inner_optimizer(model.optimizer).iterations.numpy()):
            self._weights = _values(model)
            model.optimizer.finalize_variable_values(model.trainable_weights)
            _own_values(model)

    def take_out(self) -> None:
        """Restore the weights of the last step if the model contains the average."""
        if self._weights is not None:
            _assign(self.model, self._weights)
            self._weights = None


def _values(model: keras.Model) -> list[np.ndarray]:
    """Copy the trainable weights."""
    return [np.array(weight.numpy()) for weight in model.trainable_weights]


def _assign(model: keras.Model, values: list[np.ndarray]) -> None:
    for weight, value in zip(model.trainable_weights, values, strict=True):
        weight.assign(value)


def _own_values(model: keras.Model) -> None:
    """Copy the weights into separate memory.

    On JAX, the weights share arrays with the optimizer's average, and `evaluate` donates the memory
    of the weights to its compiled function, which would destroy the average.
    """
    _assign(model, _values(model))


def keeps_average(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether the optimizer keeps a moving average of the weights."""
    return inner_optimizer(optimizer).use_ema

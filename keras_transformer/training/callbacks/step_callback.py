"""Counting updates and time while `fit` runs: what the callbacks of this folder have in common."""

import keras

from keras_transformer.training.callbacks.running_clock import CLOCK


class StepCallback(keras.callbacks.Callback):
    """A callback that knows the global step, from 1, and the time spent in training steps.

    Keras numbers batches from 0 in each epoch, and with `steps_per_execution` it calls back once
    for several: `previous_step` and `step` are the updates done before and after such a call,
    `step_seconds` its time, input included, which is no measure where the process `was_stopped`.
    The count goes on when a training does: from `steps_done` in the logs that it begins with, else
    from the optimizer's updates, of which overflowing steps are none.
    """

    def __init__(self):
        super().__init__()
        self.first_step = self.step = self.previous_step = 0
        self.step_seconds = 0.0
        self.was_stopped = False

    def on_train_begin(self, logs=None):
        updates = keras.ops.convert_to_numpy(self.model.optimizer.iterations)
        self.first_step = int((logs or {}).get("steps_done", updates))
        self.step = self.previous_step = self.first_step

    def on_epoch_begin(self, epoch, logs=None):
        self._steps_before_epoch = self.step

    def on_train_batch_begin(self, batch, logs=None):
        self._batch_began = CLOCK.seconds()
        self._stops_before_batch = CLOCK.stops

    def on_train_batch_end(self, batch, logs=None):
        self.step_seconds = CLOCK.seconds() - self._batch_began
        self.was_stopped = CLOCK.stops > self._stops_before_batch
        self.previous_step = self.step
        self.step = self._steps_before_epoch + batch + 1
        self.on_step_end(logs)

    def on_step_end(self, logs):
        """Called after `step` updates, with the values of the model's metrics."""

    def passed_multiple_of(self, steps):
        """Whether the updates since `previous_step` reached a multiple of `steps`."""
        return self.step // steps > self.previous_step // steps


class StepTotals:
    """Steps added up: their `steps`, `seconds`, target `tokens`, and `flops` or None."""

    def __init__(self, work):
        self._work = work
        self.restart()

    def restart(self):
        """Forget what was added."""
        self.steps = self.tokens = 0
        self.seconds = 0.0
        self.flops = None if self._work.flops is None else 0

    def add(self, callback):
        """Add the updates that a `StepCallback` was just told of."""
        steps = range(callback.previous_step, callback.step)
        self.steps += len(steps)
        self.seconds += callback.step_seconds
        self.tokens += self._work.total("target_tokens", steps)
        if self.flops is not None:
            self.flops += self._work.total("flops", steps)

    @property
    def tokens_per_second(self):
        """Target tokens per second, 0 before the first step."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def step_seconds(self):
        """Mean time of a step in seconds, 0 before the first."""
        return self.seconds / self.steps if self.steps else 0.0

    @property
    def flop_utilisation(self):
        """Share of the devices' peak that the work came to, None where it is not known."""
        peak = self._work.peak_flops
        if peak is None or self.flops is None or not self.seconds > 0:
            return None
        return self.flops / self.seconds / peak

    @property
    def progress(self):
        """The sums as numbers by name, fit for JSON; they may be set to go on from."""
        return {name: getattr(self, name) for name in ("steps", "seconds", "tokens", "flops")}

    @progress.setter
    def progress(self, progress):
        for name, value in progress.items():
            setattr(self, name, value)


class StepMeter(StepCallback):
    """Adds up the steps of a training, in `all_steps` and in `rate`.

    `rate` is without the ones that trace or compile, the first after each start or the first of
    each shape where every shape is compiled, and the ones in which the process was stopped.
    """

    def __init__(self, work):
        super().__init__()
        self._work = work
        self._shapes = set()
        self.all_steps = StepTotals(work)
        self.rate = StepTotals(work)

    @property
    def progress(self):
        return {"all_steps": self.all_steps.progress, "rate": self.rate.progress}

    @progress.setter
    def progress(self, progress):
        self.all_steps.progress, self.rate.progress = progress["all_steps"], progress["rate"]

    def on_step_end(self, logs):
        self.all_steps.add(self)
        if not self._meets_new_shape() and not self.was_stopped:
            self.rate.add(self)

    def _meets_new_shape(self):
        steps = range(self.previous_step, self.step)
        new = set(map(self._work.shape_to_compile, steps)) - self._shapes
        self._shapes |= new
        return bool(new)

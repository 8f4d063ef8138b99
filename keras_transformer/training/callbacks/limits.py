"""Callbacks that end a training: at a step, after minutes, without progress, or at a NaN."""

import math

import keras

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    check_positive_number,
)
from keras_transformer.errors import TrainingDiverged
from keras_transformer.training.callbacks.running_clock import CLOCK
from keras_transformer.training.callbacks.step_callback import StepCallback


class StepLimit(StepCallback):
    """Ends the training after `steps` updates, counted over its whole life.

    Args:
        steps: positive integer.
        done: updates that the training has done already, before it went on here.
    """

    def __init__(self, steps, done=0):
        super().__init__()
        check_positive_int("steps", steps)
        self.steps = steps
        self.reached = done >= steps

    def on_step_end(self, logs):
        if self.step >= self.steps:
            self.reached = True
            self.model.stop_training = True


class TimeLimit(StepCallback):
    """Ends the training after `minutes` on the clock, validation and saving included.

    Time in which the process is stopped does not count.

    Args:
        minutes: number > 0.
        elapsed: seconds that the training has taken already, before it went on here.
        agree: function from a number to the largest of those of all processes, whose clocks differ,
            such as `Devices.largest`; or None.
    """

    def __init__(self, minutes, elapsed=0.0, agree=None):
        super().__init__()
        check_positive_number("minutes", minutes)
        self.minutes = minutes
        self._agree = agree or int
        self.seconds_left = 60 * minutes - elapsed
        self.reached = self.seconds_left <= 0

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._ends = CLOCK.seconds() + self.seconds_left

    def on_step_end(self, logs):
        if self._agree(int(CLOCK.seconds() >= self._ends)):
            self.reached = True
            self.model.stop_training = True


class StopOnPlateau(keras.callbacks.Callback):
    """Ends the training after `patience` validations in a row without a better value.

    An epoch whose validation did not give the value, such as BLEU at an interval, does not count.

    Args:
        monitor: name of the value.
        mode: "min" or "max", which values are better.
        patience: positive integer.
        agree: as of `TimeLimit`: a value may differ between processors in its last digits.

    Attributes:
        progress: the best value so far and the validations since, to go on from another time.
    """

    def __init__(self, monitor, mode, patience, agree=None):
        super().__init__()
        check_one_of("mode", mode, ("min", "max"))
        check_positive_int("patience", patience)
        self.monitor = monitor
        self.mode = mode
        self.patience = patience
        self._agree = agree or int
        self._best = -math.inf
        self._without_progress = 0

    @property
    def reached(self):
        """Whether the training ended, or has to end, by it."""
        return self._without_progress >= self.patience

    @property
    def progress(self):
        return {"best": self._best, "without_progress": self._without_progress}

    @progress.setter
    def progress(self, progress):
        self._best = progress["best"]
        self._without_progress = progress["without_progress"]

    def on_epoch_end(self, epoch, logs=None):
        value = (logs or {}).get(self.monitor)
        if value is None:
            return
        gain = value if self.mode == "max" else -value
        if gain > self._best:
            self._best = gain
            self._without_progress = 0
        else:
            self._without_progress += 1
        if self._agree(int(self.reached)):
            self._without_progress = max(self._without_progress, self.patience)
            self.model.stop_training = True


class StopOnNaN(StepCallback):
    """Raises `TrainingDiverged` at the first step whose loss is no finite number.

    Goes before the callbacks that save.

    Args:
        last_good: optional function that returns a sentence on the last good checkpoint.
    """

    def __init__(self, last_good=None):
        super().__init__()
        self.last_good = last_good

    def on_step_end(self, logs):
        loss = logs["step_loss"] if "step_loss" in logs else logs["loss"]
        if not math.isfinite(loss):
            sentence = f" {self.last_good()}" if self.last_good else ""
            raise TrainingDiverged(
                f"The loss is {loss} at step {self.step}: training stopped.{sentence} "
                "A lower learning rate or a longer warm-up may help."
            )

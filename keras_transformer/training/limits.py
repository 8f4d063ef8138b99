"""Callbacks that end a training: at a step, after minutes, or when the loss is no number."""

import math
import time

from keras_transformer.argument_checks import check_positive_int, check_positive_number
from keras_transformer.errors import TrainingDiverged
from keras_transformer.training.step_callback import StepCallback


class StepLimit(StepCallback):
    """Ends the training after `steps` updates, counted over its whole life.

    Args:
        steps: positive integer.
    """

    def __init__(self, steps):
        super().__init__()
        check_positive_int("steps", steps)
        self.steps = steps
        self.reached = False

    def on_step_end(self, logs):
        if self.step >= self.steps:
            self.reached = True
            self.model.stop_training = True


class TimeLimit(StepCallback):
    """Ends the training after `minutes` on the clock, validation and saving included.

    Args:
        minutes: number > 0.
    """

    def __init__(self, minutes):
        super().__init__()
        check_positive_number("minutes", minutes)
        self.minutes = minutes
        self.reached = False

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._ends = time.perf_counter() + 60 * self.minutes

    def on_step_end(self, logs):
        if time.perf_counter() >= self._ends:
            self.reached = True
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

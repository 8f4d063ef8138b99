"""Counting updates and time while `fit` runs: what the callbacks of this folder have in common."""

import time

import keras


class StepCallback(keras.callbacks.Callback):
    """A callback that knows the global step, from 1, and the time spent in training steps.

    Keras numbers batches from 0 in each epoch, and with `steps_per_execution` it calls back once
    for several. The count goes on when a training does: from `steps_done` in the logs that it
    begins with, else from the optimizer's updates, of which overflowing steps are none.

    Attributes:
        first_step: updates done before this call of `fit`.
        step: updates done.
        previous_step: updates done at the call before this one.
        step_seconds: seconds that the updates since `previous_step` took, input included.
    """

    def __init__(self):
        super().__init__()
        self.first_step = self.step = self.previous_step = 0
        self.step_seconds = 0.0

    def on_train_begin(self, logs=None):
        updates = self.model.optimizer.iterations
        self.first_step = (logs or {}).get("steps_done", int(keras.ops.convert_to_numpy(updates)))
        self.step = self.previous_step = self.first_step

    def on_epoch_begin(self, epoch, logs=None):
        self._steps_before_epoch = self.step

    def on_train_batch_begin(self, batch, logs=None):
        self._batch_began = time.perf_counter()

    def on_train_batch_end(self, batch, logs=None):
        self.step_seconds = time.perf_counter() - self._batch_began
        self.previous_step = self.step
        self.step = self._steps_before_epoch + batch + 1
        self.on_step_end(logs)

    def on_step_end(self, logs):
        """Called after `step` updates, with the values of the model's metrics."""

    def passed_multiple_of(self, steps):
        """Whether the updates since `previous_step` reached a multiple of `steps`."""
        return self.step // steps > self.previous_step // steps


class TokenRate:
    """Target tokens per second of training steps.

    Args:
        target_tokens: function from a zero-based step to its number of target tokens.
    """

    def __init__(self, target_tokens):
        self._target_tokens = target_tokens
        self.restart()

    def restart(self):
        """Forget what was added."""
        self.tokens = 0
        self.seconds = 0.0

    def add(self, callback):
        """Add the updates that a `StepCallback` was just told of."""
        steps = range(callback.previous_step, callback.step)
        self.tokens += sum(int(self._target_tokens(step)) for step in steps)
        self.seconds += callback.step_seconds

    @property
    def value(self):
        """Tokens per second, 0 before the first step."""
        return self.tokens / self.seconds if self.seconds > 0 else 0.0


class StepMeter(StepCallback):
    """Measures target tokens per second of all steps but the first, which traces the graph.

    Args:
        target_tokens: function from a zero-based step to its number of target tokens.

    Attributes:
        progress: what was measured so far, to go on from another time.
    """

    def __init__(self, target_tokens):
        super().__init__()
        self.rate = TokenRate(target_tokens)

    @property
    def progress(self):
        return {"tokens": self.rate.tokens, "seconds": self.rate.seconds}

    @progress.setter
    def progress(self, progress):
        self.rate.tokens, self.rate.seconds = progress["tokens"], progress["seconds"]

    def on_step_end(self, logs):
        if self.previous_step > self.first_step:
            self.rate.add(self)

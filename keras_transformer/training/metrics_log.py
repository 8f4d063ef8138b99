"""metrics.csv: what single training steps gave."""

import keras

from keras_transformer.training.step_callback import StepCallback, TokenRate

HEADER = "step,loss,learning_rate,target_tokens_per_second"
FIRST_STEPS = 10


def learning_rate_function(optimizer):
    """Return a function from a zero-based step to the optimizer's learning rate there."""
    rate = optimizer.get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = keras.optimizers.schedules.deserialize(rate)
    if not isinstance(rate, keras.optimizers.schedules.LearningRateSchedule):
        return lambda step: float(rate)
    return lambda step: float(keras.ops.convert_to_numpy(rate(step)))


class MetricsLog(StepCallback):
    """Writes `step,loss,learning_rate,target_tokens_per_second`: the first 10 steps, then some.

    `loss` is the smoothed token mean of that one step, with 9 significant digits, so that equal
    numbers mean equal float32 values. The rate counts the steps since the row before.

    Args:
        path: the file; rows are appended if it exists.
        target_tokens: function from a zero-based step to its number of target tokens.
        every: every how many steps a row is written after the first 10.
    """

    def __init__(self, path, target_tokens, every=50):
        super().__init__()
        self.path = path
        self.every = every
        self._rate = TokenRate(target_tokens)
        self._file = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._learning_rate = learning_rate_function(self.model.optimizer)
        self._file = open(self.path, "a", encoding="utf-8", newline="\n")
        if self._file.tell() == 0:
            self._write(HEADER)

    def on_step_end(self, logs):
        self._rate.add(self)
        if self.step <= FIRST_STEPS or self.step // self.every > self.previous_step // self.every:
            rate = self._learning_rate(self.step - 1)
            loss = logs["step_loss"]
            self._write(f"{self.step},{loss:.9g},{rate:.9g},{self._rate.value:.1f}")
            self._rate.restart()

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Close the file; an interrupted training calls this itself."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, row):
        self._file.write(row + "\n")
        self._file.flush()

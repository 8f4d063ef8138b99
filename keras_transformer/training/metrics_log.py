"""metrics.csv: what single training steps gave."""

import keras

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.training.step_callback import StepCallback, TokenRate

HEADER = "step,loss,learning_rate,target_tokens_per_second"
FIRST_STEPS = 10


def learning_rate_function(optimizer):
    """Return a function from a zero-based step to the optimizer's learning rate there."""
    # Under "mixed_float16" Keras wraps the optimizer in one that scales the loss.
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    rate = optimizer.get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = keras.optimizers.schedules.deserialize(rate)
    if not callable(rate):
        return lambda step: float(rate)
    return lambda step: float(keras.ops.convert_to_numpy(rate(step)))


class MetricsLog(StepCallback):
    """Writes `step,loss,learning_rate,target_tokens_per_second`: the first 10 steps, then some.

    `loss` is the smoothed token mean of that one step, with 9 significant digits, so that equal
    digits mean equal float32 values. The rate counts the steps since the row before.

    Args:
        path: the file; rows are appended if it exists.
        target_tokens: function from a zero-based step to its number of target tokens.
        every: after the first 10 steps, a row is written at every multiple of it.
    """

    def __init__(self, path, target_tokens, every=50):
        super().__init__()
        check_positive_int("every", every)
        self.path = path
        self.every = every
        self._rate = TokenRate(target_tokens)
        self._file = None

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._learning_rate = learning_rate_function(self.model.optimizer)
        self._file = open(self.path, "a", encoding="utf-8", newline="\n")  # noqa: SIM115
        if self._file.tell() == 0:
            self._write(HEADER)

    def on_step_end(self, logs):
        if "step_loss" not in logs:
            raise ValueError("`MetricsLog` needs `metrics.StepLoss` among `weighted_metrics`")
        self._rate.add(self)
        if self.step <= FIRST_STEPS or self.passed_multiple_of(self.every):
            rate = self._learning_rate(self.step - 1)
            self._write(f"{self.step},{logs['step_loss']:.9g},{rate:.9g},{self._rate.value:.1f}")
            self._rate.restart()

    def on_train_end(self, logs=None):
        self.close()

    def close(self):
        """Close the file; whoever catches an error of `fit` calls this."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _write(self, row):
        self._file.write(row + "\n")
        self._file.flush()

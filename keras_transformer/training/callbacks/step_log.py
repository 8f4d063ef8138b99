"""The values of single training steps, and when they are logged."""

import abc

import keras

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.callbacks.step_callback import StepCallback, StepTotals

FIRST_STEPS = 10


class StepLog(StepCallback, abc.ABC):
    """Collects what a step gave: the first 10 steps, then every multiple of `every`.

    A subclass says in `write_step` where it goes. The values are
    - `loss`: the token mean of that one step, label smoothing included;
    - `learning_rate`;
    - `target_tokens_per_second` and `step_seconds`: means over the steps since the last one
      logged, input included, without steps in which the process was stopped;
    - `nll`: the plain negative log-likelihood per token of that one step, in nats, where a
      `metrics.StepLoss` of a loss without smoothing is named "step_nll";
    - `gradient_norm`: of all gradients together, before clipping, where the optimizer keeps it;
    - `padding_share`: of that one batch, where it is known;
    - `flop_utilisation`: over the steps since the last one logged, where it is known.
    """

    def __init__(self, work, every=50):
        super().__init__()
        check_positive_int("every", every)
        self.every = every
        self._work = work
        self._rate = StepTotals(work)

    def on_train_begin(self, logs=None):
        super().on_train_begin(logs)
        self._learning_rate = learning_rate_function(self.model.optimizer)
        self._rate.restart()

    def on_step_end(self, logs):
        if "step_loss" not in logs:
            raise ValueError(
                f"`{type(self).__name__}` needs `metrics.StepLoss` among `weighted_metrics`"
            )
        if not self.was_stopped:
            self._rate.add(self)
        if self.step <= FIRST_STEPS or self.passed_multiple_of(self.every):
            self.write_step(self._values(logs))
            self._rate.restart()

    @abc.abstractmethod
    def write_step(self, values):
        """Log the values of step `self.step`, a dictionary; those that are not known are absent."""

    def _values(self, logs):
        values = {
            "loss": float(logs["step_loss"]),
            "learning_rate": self._learning_rate(self.step - 1),
        }
        if self._rate.steps:  # none where the process was stopped in the one step since then
            values["target_tokens_per_second"] = self._rate.tokens_per_second
            values["step_seconds"] = self._rate.step_seconds
        if "step_nll" in logs:
            values["nll"] = float(logs["step_nll"])
        # `self.model` brings the optimizer's variables up to date: on JAX not a matter of course.
        norm = getattr(inner_optimizer(self.model.optimizer), "gradient_norm", None)
        if norm is not None:
            values["gradient_norm"] = float(norm.numpy())
        if self._work.padding_share is not None:
            values["padding_share"] = float(self._work.padding_share(self.step - 1))
        if self._rate.flop_utilisation is not None:
            values["flop_utilisation"] = self._rate.flop_utilisation
        return values


def learning_rate_function(optimizer):
    """Return a function from a zero-based step to the optimizer's learning rate there."""
    rate = inner_optimizer(optimizer).get_config()["learning_rate"]
    if isinstance(rate, dict):
        rate = keras.optimizers.schedules.deserialize(rate)
    if not callable(rate):
        return lambda step: float(rate)
    return lambda step: float(keras.ops.convert_to_numpy(rate(step)))

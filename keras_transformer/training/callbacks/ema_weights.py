"""The optimizer's moving average replaces the weights for validation and saving."""

import keras
import numpy as np

from keras_transformer.optimizers import inner_optimizer
from keras_transformer.training.callbacks.step_callback import Logs


class EMAWeights(keras.callbacks.Callback):
    """Puts the moving average of the weights into the model at the end of every epoch.

    Validation and later callbacks see the average. The next epoch continues from exactly the
    weights of the last step. When `fit` ends, the model holds the average.

    `keras.callbacks.SwapEMAWeights` swaps by adding and subtracting, which rounds, and leaves a
    training that ends early with the weights of its last step.

    The model's optimizer needs `use_ema=True`. The average starts as the weights after the first
    update; then `average = momentum * average + (1 - momentum) * weights`.

    Raises:
        ValueError: the optimizer keeps no average.
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
        self._weights = None  # `fit` has put the average in for good
        _own_values(self.model)

    @property
    def of_last_step(self) -> list[np.ndarray] | None:
        """The weights from which the training continues; None if the model holds them."""
        return self._weights

    def put_in(self) -> None:
        """Put the average into the model, unless it is there already or does not exist yet.

        It exists from the first update on; with float16, steps that overflow are not updates.
        """
        model = self.model
        if self._weights is None and int(inner_optimizer(model.optimizer).iterations.numpy()):
            self._weights = _values(model)
            model.optimizer.finalize_variable_values(model.trainable_weights)
            _own_values(model)

    def take_out(self) -> None:
        """Put the last step's weights back, if the average is in their place."""
        if self._weights is not None:
            _assign(self.model, self._weights)
            self._weights = None


def _values(model: keras.Model) -> list[np.ndarray]:
    """Copies of the trainable weights."""
    return [np.array(weight.numpy()) for weight in model.trainable_weights]


def _assign(model: keras.Model, values: list[np.ndarray]) -> None:
    for weight, value in zip(model.trainable_weights, values, strict=True):
        weight.assign(value)


def _own_values(model: keras.Model) -> None:
    """Copy the weights into their own memory.

    On JAX, they share the arrays of the optimizer's average, and `evaluate` donates the memory of
    the weights to its compiled function: the average would be lost.
    """
    _assign(model, _values(model))


def keeps_average(optimizer: keras.optimizers.Optimizer) -> bool:
    """Whether the optimizer keeps a moving average of the weights."""
    return inner_optimizer(optimizer).use_ema

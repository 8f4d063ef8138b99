"""The optimizer's moving average in the model's place while it is validated and saved."""

import keras
import numpy as np

from keras_transformer.optimizers import inner_optimizer


class EMAWeights(keras.callbacks.Callback):
    """Puts the moving average of the weights into the model at the end of every epoch of `fit`.

    Validation, and every callback behind this one, then see the average. The next epoch goes on
    from the very weights that the last step left. When `fit` is over, the model holds the average.

    `keras.callbacks.SwapEMAWeights` swaps by sums, which round, and a training that ends before
    its last epoch is left with the weights of its last step.

    The model's optimizer needs `use_ema=True`. It starts the average with the weights after the
    first update; from then on `average = momentum * average + (1 - momentum) * weights`.

    Raises:
        ValueError: the optimizer keeps no average.
    """

    def __init__(self):
        super().__init__()
        self._weights = None

    def on_train_begin(self, logs=None):
        if not keeps_average(self.model.optimizer):
            raise ValueError("`EMAWeights` needs an optimizer with `use_ema=True`")

    def on_epoch_begin(self, epoch, logs=None):
        self.take_out()

    def on_test_begin(self, logs=None):
        self.put_in()

    def on_epoch_end(self, epoch, logs=None):
        self.put_in()

    def on_train_end(self, logs=None):
        self._weights = None  # `fit` has put the average in for good
        _own_values(self.model)

    def put_in(self):
        """Put the average into the model, if it is not there already."""
        if self._weights is None:
            model = self.model
            self._weights = _values(model)
            model.optimizer.finalize_variable_values(model.trainable_weights)
            _own_values(model)

    def take_out(self):
        """Put the last step's weights back, if the average is in their place."""
        if self._weights is not None:
            _assign(self.model, self._weights)
            self._weights = None


def _values(model):
    """Copies of the trainable weights."""
    return [np.array(weight.numpy()) for weight in model.trainable_weights]


def _assign(model, values):
    for weight, value in zip(model.trainable_weights, values, strict=True):
        weight.assign(value)


def _own_values(model):
    """Give weights memory of their own.

    On JAX they were given the very arrays of the optimizer's average, and `evaluate` hands the
    memory of the weights to its compiled function, after which the average would be lost.
    """
    _assign(model, _values(model))


def keeps_average(optimizer):
    """Whether the optimizer keeps a moving average of the weights."""
    return inner_optimizer(optimizer).use_ema

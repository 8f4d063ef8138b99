"""A dense layer."""

from typing import Any

import keras

from keras_transformer.layers.bias_addition import add_bias
from keras_transformer.layers.matrix_products import times_matrix
from keras_transformer.types import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dense(keras.layers.Dense):
    """Keras's dense layer; under a mixed policy the gradient of its bias is exact as well.

    Args:
        units: size of the output.
        activation: as of `keras.layers.Dense`.
        **kwargs: its other arguments.

    Call arguments:
        inputs: tensor (..., input_dim).

    Returns:
        Tensor (..., units), with the Keras mask of `inputs`.

    Example:
        >>> import numpy as np
        >>> tuple(Dense(4, activation="relu")(np.ones((2, 3), "float32")).shape)
        (2, 4)
    """

    def __init__(self, units: int, *, activation: Any = None, **kwargs: Any) -> None:
        super().__init__(units, activation=activation, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        outputs = times_matrix(inputs, self.kernel)
        if self.bias is not None:
            outputs = add_bias(outputs, self.bias)
        return self.activation(outputs)

    def quantize(self, mode: str | None = None, type_check: bool = True, **config: Any) -> None:
        """As of `keras.layers.Dense`, whose weights and computation these are then."""
        super().quantize(mode, type_check=False, **config)

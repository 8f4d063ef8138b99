"""The position-wise feed-forward network."""

from typing import Any

import keras

from keras_transformer.argument_checks import (
    check_positive_int,
    check_positive_number,
    check_rate,
    check_seed,
    known_width,
)
from keras_transformer.layers.dense import Dense
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.kernel_layer import KernelLayer, SideBySide
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(KernelLayer):
    """Two linear maps with an activation between them, applied to every position alike.

    Args:
        intermediate_dim: size between the two maps.
        dropout: rate of dropout on the activations (the paper has none there).
        activation: a Keras activation or its name, such as "relu", "gelu" or "swish".
        kernel_initializer: initializer of the two matrices.
        bias_initializer: initializer of the two biases.
        kernel_regularizer, bias_regularizer: regularizers, as in `keras.layers.Dense`.
        kernel_constraint, bias_constraint: constraints, as in `keras.layers.Dense`.
        initial_gain: factor of the initial matrices, as in DeepNorm (see `ResidualBlock`).
        seed: integer, seed of the dropout; None: Keras chooses one.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim), with the Keras mask of `inputs`.

    Raises:
        ValueError: `intermediate_dim` is not a positive integer, `dropout` is outside [0, 1), or
            Keras does not know the activation or an initializer.

    Example:
        >>> import numpy as np
        >>> tuple(FeedForward(16)(np.ones((1, 3, 4), "float32")).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), section 3.3.
    """

    def __init__(
        self,
        intermediate_dim: int,
        *,
        dropout: float = 0.0,
        activation: Any = "relu",
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        initial_gain: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_int("intermediate_dim", intermediate_dim)
        check_rate("dropout", dropout)
        check_positive_number("initial_gain", initial_gain)
        check_seed("seed", seed)
        self.expand = self._dense(self.intermediate_dim, "expand", self.activation)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")

    def _dense(self, units: int, name: str, activation: Any = None) -> Dense:
        return Dense(
            units,
            activation=activation,
            **self.kernel_options()
            | {
                "kernel_initializer": SideBySide(
                    self.kernel_initializer, (units,), (self.initial_gain,)
                )
            },
            dtype=self.dtype_policy,
            name=name,
        )

    def build(self, inputs_shape: Shape) -> None:
        self.expand.build(inputs_shape)
        self.contract = self._dense(known_width("inputs", inputs_shape), "contract")
        self.contract.build((*inputs_shape[:-1], self.intermediate_dim))
        self.finish_build()

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        return self.contract(self.dropout_layer(self.expand(inputs), training=training))

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return tuple(inputs_shape)

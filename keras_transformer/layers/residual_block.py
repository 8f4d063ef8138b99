"""Residual connection, dropout and layer normalisation around a sub-layer."""

from typing import Any

import keras

from keras_transformer.argument_checks import check_bool, check_positive_number, check_rate
from keras_transformer.layers.dropout import Dropout
from keras_transformer.types import Shape, Tensor

LAYER_NORM_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="keras_transformer")
class ResidualBlock(keras.layers.Layer):
    """What surrounds a sub-layer: `block(x, sublayer(block.enter(x)))`.

    Post-norm, the paper's form, is `LayerNorm(x + Dropout(sublayer(x)))`; pre-norm is
    `x + Dropout(sublayer(LayerNorm(x)))`.

    Args:
        dropout: rate of dropout on the sub-layer's output.
        normalize_first: whether to normalise the sub-layer's input (pre-norm).
        layer_norm_epsilon: number added to the variance.
        **kwargs: `name`, `dtype` and `trainable`, as of `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim), what the block was entered with.
        outputs: tensor of the same shape, the sub-layer's output.
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim), with the Keras mask of `inputs`.

    Raises:
        ValueError: an argument breaks its rule, such as a `dropout` outside [0, 1).

    Example:
        >>> import numpy as np
        >>> block, x = ResidualBlock(), np.ones((1, 3, 4), "float32")
        >>> tuple(block(x, 2 * block.enter(x)).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), sections 3.1 and 5.4; Xiong et al. (2020) for pre-norm.
    """

    def __init__(
        self,
        *,
        dropout: float = 0.0,
        normalize_first: bool = False,
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_rate("dropout", dropout)
        check_bool("normalize_first", normalize_first)
        check_positive_number("layer_norm_epsilon", layer_norm_epsilon)
        self.supports_masking = True
        self.dropout = dropout
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)
        self.norm = keras.layers.LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
        )

    def build(self, inputs_shape: Shape, outputs_shape: Shape | None = None) -> None:
        self.norm.build(inputs_shape)

    def enter(self, inputs: Tensor) -> Tensor:
        """The sub-layer's input: `inputs`, normalised if pre-norm; same shape."""
        return self.norm(inputs) if self.normalize_first else inputs

    def call(self, inputs: Tensor, outputs: Tensor, training: bool | None = None) -> Tensor:
        total = inputs + self.dropout_layer(outputs, training=training)
        return total if self.normalize_first else self.norm(total)

    def compute_output_shape(
        self, inputs_shape: Shape, outputs_shape: Shape | None = None
    ) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
        }

"""Residual connection, dropout and layer normalisation around a sub-layer."""

import keras

from keras_transformer.argument_checks import check_rate

LAYER_NORM_EPSILON = 1e-6


@keras.saving.register_keras_serializable(package="keras_transformer")
class ResidualBlock(keras.layers.Layer):
    """What surrounds a sub-layer: `block(x, sublayer(block.enter(x)))`.

    Post-norm, the paper's form, is `LayerNorm(x + Dropout(sublayer(x)))`; pre-norm is
    `x + Dropout(sublayer(LayerNorm(x)))`.

    Args:
        dropout: rate of dropout on the sub-layer's output.
        normalize_first: whether to normalise the sub-layer's input (pre-norm).

    Call arguments:
        inputs: tensor (batch, length, hidden_dim), what the block was entered with.
        outputs: tensor of the same shape, the sub-layer's output.
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim).

    Raises:
        ValueError: `dropout` is outside [0, 1).

    Example:
        >>> import numpy as np
        >>> block, x = ResidualBlock(), np.ones((1, 3, 4), "float32")
        >>> tuple(block(x, 2 * block.enter(x)).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), sections 3.1 and 5.4; Xiong et al. (2020) for pre-norm.
    """

    def __init__(self, dropout=0.0, normalize_first=False, **kwargs):
        super().__init__(**kwargs)
        check_rate("dropout", dropout)
        self.dropout = dropout
        self.normalize_first = normalize_first
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        self.norm = keras.layers.LayerNormalization(
            epsilon=LAYER_NORM_EPSILON, dtype=self.dtype_policy, name="norm"
        )

    def build(self, inputs_shape, outputs_shape=None):
        self.norm.build(inputs_shape)

    def enter(self, inputs):
        """The sub-layer's input: `inputs`, normalised if pre-norm; same shape."""
        return self.norm(inputs) if self.normalize_first else inputs

    def call(self, inputs, outputs, training=None):
        total = inputs + self.dropout_layer(outputs, training=training)
        return total if self.normalize_first else self.norm(total)

    def compute_output_shape(self, inputs_shape, outputs_shape=None):
        return tuple(inputs_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "dropout": self.dropout,
            "normalize_first": self.normalize_first,
        }

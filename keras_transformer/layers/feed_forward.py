"""The position-wise feed-forward network."""

import keras

from keras_transformer.argument_checks import check_positive_int, check_rate
from keras_transformer.layers.dense import Dense


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """Two linear maps with a ReLU between them, applied to every position alike.

    Args:
        intermediate_dim: size between the two maps.
        dropout: rate of dropout behind the ReLU (the paper has none there).

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim).

    Raises:
        ValueError: `intermediate_dim` is no positive integer, or `dropout` is outside [0, 1).

    Example:
        >>> import numpy as np
        >>> tuple(FeedForward(16)(np.ones((1, 3, 4), "float32")).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), section 3.3.
    """

    def __init__(self, intermediate_dim, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        check_positive_int("intermediate_dim", intermediate_dim)
        check_rate("dropout", dropout)
        self.intermediate_dim = intermediate_dim
        self.dropout = dropout
        self.expand = Dense(
            intermediate_dim, activation="relu", dtype=self.dtype_policy, name="expand"
        )
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, inputs_shape):
        self.expand.build(inputs_shape)
        self.contract = Dense(inputs_shape[-1], dtype=self.dtype_policy, name="contract")
        self.contract.build((*inputs_shape[:-1], self.intermediate_dim))

    def call(self, inputs, training=None):
        return self.contract(self.dropout_layer(self.expand(inputs), training=training))

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "dropout": self.dropout,
        }

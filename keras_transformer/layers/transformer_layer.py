"""What the encoder's and the decoder's layers have in common."""

import keras

from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.residual_block import ResidualBlock


class TransformerLayer(keras.layers.Layer):
    """Options, feed-forward network and config of a Transformer's layer; the base of both kinds.

    Args:
        num_heads: number of attention heads.
        key_dim: size of a head's queries and keys.
        intermediate_dim: inner size of the feed-forward network.
        value_dim: size of a head's values; `key_dim` if None.
        dropout: rate of dropout on each sub-layer's output.
        attention_dropout: rate of dropout on the attention weights.
        activation_dropout: rate of dropout behind the ReLU.
        normalize_first: pre-norm instead of the paper's post-norm.
        use_bias: whether the attention's projections have biases.
    """

    def __init__(
        self,
        num_heads,
        key_dim,
        intermediate_dim,
        value_dim=None,
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        normalize_first=False,
        use_bias=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.intermediate_dim = intermediate_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.normalize_first = normalize_first
        self.use_bias = use_bias
        self.feed_forward = FeedForward(
            intermediate_dim, activation_dropout, dtype=self.dtype_policy
        )
        self.feed_forward_block = self.create_block()

    def create_attention(self):
        """A `MultiHeadAttention` with the layer's options."""
        return MultiHeadAttention(
            self.num_heads,
            self.key_dim,
            self.value_dim,
            self.use_bias,
            self.attention_dropout,
            dtype=self.dtype_policy,
        )

    def create_block(self):
        """A `ResidualBlock` with the layer's options."""
        return ResidualBlock(self.dropout, self.normalize_first, dtype=self.dtype_policy)

    def feed(self, hidden, training=None):
        """The feed-forward network in its residual block; (batch, length, hidden_dim) stays."""
        fed = self.feed_forward(self.feed_forward_block.enter(hidden), training=training)
        return self.feed_forward_block(hidden, fed, training=training)

    def compute_mask(self, inputs, previous_mask):
        return None  # `mask` says what may be attended to: it is no Keras mask of the output

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "intermediate_dim": self.intermediate_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "normalize_first": self.normalize_first,
            "use_bias": self.use_bias,
        }

"""One layer of the encoder."""

import keras

from keras_transformer.layers.transformer_layer import TransformerLayer


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and feed-forward network, each in a residual block.

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

    Call arguments:
        inputs: tensor (batch, source_length, hidden_dim).
        mask: boolean tensor that broadcasts to (batch, source_length, source_length), or None.
        training: whether dropout is active.

    Returns:
        Tensor (batch, source_length, hidden_dim).

    Raises:
        ValueError: an argument breaks the rule of the layer it is for.

    Example:
        >>> import numpy as np
        >>> layer = TransformerEncoderLayer(num_heads=2, key_dim=4, intermediate_dim=16)
        >>> tuple(layer(np.ones((1, 3, 8), "float32")).shape)
        (1, 3, 8)

    Reference: Vaswani et al. (2017), section 3.1.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.attention = self.create_attention()
        self.attention_block = self.create_block()

    def build(self, inputs_shape):
        for layer in (
            self.attention,
            self.attention_block,
            self.feed_forward,
            self.feed_forward_block,
        ):
            layer.build(inputs_shape)

    def call(self, inputs, mask=None, training=None):
        attended = self.attention(self.attention_block.enter(inputs), mask=mask, training=training)
        hidden = self.attention_block(inputs, attended, training=training)
        return self.feed(hidden, training)

    def compute_output_shape(self, inputs_shape):
        return tuple(inputs_shape)

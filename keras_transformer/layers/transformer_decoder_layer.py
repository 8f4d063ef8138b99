"""One layer of the decoder."""

import keras
from keras import ops

from keras_transformer.layers.attention_masks import causal_mask
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.transformer_layer import TransformerLayer


def _attend_without_scores(attention, *arguments, **options):
    """As `MultiHeadAttention.attend`; an attention that need not give its scores may be fused."""
    return attention(*arguments, **options), None


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerDecoderLayer(TransformerLayer):
    """Causal self-attention, attention to the memory and feed-forward network, in residual blocks.

    `call` takes whole target sequences; `step` takes one position and a cache and gives the same.
    Padding at the end of a target row needs no mask: earlier positions never see it.

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
        inputs: tensor (batch, target_length, hidden_dim).
        memory: tensor (batch, source_length, hidden_dim), the encoder's output.
        memory_mask: boolean tensor that broadcasts to (batch, target_length, source_length),
            or None.
        training: whether dropout is active.

    Returns:
        Tensor (batch, target_length, hidden_dim).

    Raises:
        ValueError: an argument breaks the rule of the layer it is for.

    Example:
        >>> import numpy as np
        >>> layer = TransformerDecoderLayer(num_heads=2, key_dim=4, intermediate_dim=16)
        >>> x, memory = np.ones((1, 3, 8), "float32"), np.ones((1, 5, 8), "float32")
        >>> tuple(layer(x, memory).shape)
        (1, 3, 8)

    Reference: Vaswani et al. (2017), section 3.1.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.self_attention = self.create_attention()
        self.self_attention_block = self.create_block()
        self.cross_attention = self.create_attention()
        self.cross_attention_block = self.create_block()

    def build(self, inputs_shape, memory_shape):
        self.cross_attention.build(inputs_shape, memory_shape)
        for layer in (
            self.self_attention,
            self.self_attention_block,
            self.cross_attention_block,
            self.feed_forward,
            self.feed_forward_block,
        ):
            layer.build(inputs_shape)

    def call(self, inputs, memory, memory_mask=None, training=None):
        return self._run(inputs, memory, memory_mask, training, _attend_without_scores)[0]

    def attend(self, inputs, memory, memory_mask=None, training=None):
        """The layer with its attention weights; the call arguments are those of the layer.

        Returns:
            outputs: tensor (batch, target_length, hidden_dim).
            self_scores: the self-attention's weights before dropout, float32
                (batch, num_heads, target_length, target_length).
            cross_scores: those of the attention to the memory, float32
                (batch, num_heads, target_length, source_length).
        """
        return self._run(inputs, memory, memory_mask, training, MultiHeadAttention.attend)

    def _run(self, inputs, memory, memory_mask, training, attend):
        attended, self_scores = attend(
            self.self_attention,
            self.self_attention_block.enter(inputs),
            mask=causal_mask(ops.shape(inputs)[1]),
            training=training,
        )
        hidden = self.self_attention_block(inputs, attended, training=training)
        attended, cross_scores = attend(
            self.cross_attention,
            self.cross_attention_block.enter(hidden),
            value=memory,
            mask=memory_mask,
            training=training,
        )
        hidden = self.cross_attention_block(hidden, attended, training=training)
        return self.feed(hidden, training), self_scores, cross_scores

    def step(self, inputs, index, memory, memory_mask, cache):
        """One position of every beam.

        Args:
            inputs: tensor (batch, beams, hidden_dim), the position's inputs.
            index: scalar integer tensor, the position, counted from 0.
            memory: keys and values from `project_memory`, one per sentence, not per beam.
            memory_mask: boolean tensor (batch, 1, source_length), or None.
            cache: the self-attention's cache, as from `start_cache`.

        Returns:
            outputs: tensor (batch, beams, hidden_dim).
            cache: the given one with this position filled.
        """
        attended, cache = self.self_attention.step(
            self.self_attention_block.enter(inputs), cache, index
        )
        hidden = self.self_attention_block(inputs, attended, training=False)
        attended = self.cross_attention.attend_memory(
            self.cross_attention_block.enter(hidden), memory, memory_mask
        )
        hidden = self.cross_attention_block(hidden, attended, training=False)
        return self.feed(hidden, training=False), cache

    def start_cache(self, batch_size, beam_size, length):
        """An empty self-attention cache; see `MultiHeadAttention.start_cache`."""
        return self.self_attention.start_cache(batch_size, beam_size, length)

    def project_memory(self, memory):
        """The memory's keys and values, for `step`; see `MultiHeadAttention.project_memory`."""
        return self.cross_attention.project_memory(memory)

    def compute_output_shape(self, inputs_shape, memory_shape):
        return tuple(inputs_shape)

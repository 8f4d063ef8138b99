"""One layer of the encoder."""

from typing import Any

import keras

from keras_transformer.layers.attention_masks import as_attention_mask, mask_axes
from keras_transformer.layers.transformer_layer import TransformerLayer
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and feed-forward network, each in a residual block.

    Args:
        intermediate_dim: inner size of the feed-forward network.
        num_heads: number of attention heads.
        key_dim: size of a head's queries and keys; None: the width of the inputs / `num_heads`.
        value_dim: size of a head's values; None: the size of its keys.
        dropout: rate of dropout on each sub-layer's output.
        attention_dropout: rate of dropout on the attention weights.
        activation_dropout: rate of dropout on the feed-forward network's activations.
        activation: activation of the feed-forward network: a Keras activation or its name, such as
            "relu" or "gelu".
        layer_norm_epsilon: number added to the variance in the layer normalizations.
        kernel_initializer: initializer of all matrices.
        bias_initializer: initializer of all biases.
        kernel_regularizer, bias_regularizer: regularizers of all matrices and all biases, as in
            `keras.layers.Dense`; a fused matrix of the attention counts as one.
        kernel_constraint, bias_constraint: constraints of all matrices and all biases.
        normalize_first: pre-norm instead of the paper's post-norm. A stack of such layers needs a
            `keras.layers.LayerNormalization` at its end.
        use_bias: whether the attention's projections have biases.
        attention_window: odd number of positions that a position sees in self-attention, including
            itself, as in `MultiHeadAttention`; None: all.
        positions: kind of positions in self-attention, such as "rotary", as in
            `MultiHeadAttention`; None: no positions.
        qk_norm: whether attention normalizes its queries and keys, as in `MultiHeadAttention`.
        residual_scale: factor of each sub-layer's inputs in the sum with its outputs.
        initial_gain: factor of the initial matrices of the feed-forward network and, in attention,
            of the values and the output. DeepNorm sets `residual_scale` too; see `ResidualBlock`.
        b2t_connection: whether the layer's inputs are added to the sum before its last
            normalization too (post-norm only), so that the stack keeps more of each token's
            identity.
        seed: integer from which every dropout gets its own seed; None: Keras chooses them.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        mask: boolean tensor, True = may be attended to: padding (batch, length), or attention
            (batch, length, length) or (batch, num_heads, length, length), as `attention_mask` of
            `MultiHeadAttention`. None: only the inputs' Keras mask applies, such as that from
            `keras.layers.Embedding(mask_zero=True)`. A given mask applies together with it.
        return_attention_scores: whether to return the attention weights too.
        training: whether dropout is active.
        use_causal_mask: whether a position attends only to itself and earlier positions.

    Returns:
        Tensor (batch, length, hidden_dim) with the inputs' Keras mask. With
        `return_attention_scores`, a pair: this tensor, and the attention weights before dropout,
        float32 (batch, num_heads, length, length).

    Raises:
        ValueError: an argument breaks its rule, `inputs` is not of rank 3, or `mask` has a wrong
            shape.

    Example:
        >>> import numpy as np
        >>> layer = TransformerEncoderLayer(intermediate_dim=16, num_heads=2)
        >>> tuple(layer(np.ones((1, 3, 8), "float32")).shape)
        (1, 3, 8)

    Reference: Vaswani et al. (2017), section 3.1. B2T: Takase et al., "B2T Connection: Serving
        Stability and Performance in Deep Transformers", 2023.
    """

    def build(self, inputs_shape: Shape) -> None:
        self.attention = self.create_attention("self_attention", inputs_shape)
        self.attention_block = self.create_block("self_attention_block")
        for layer in (
            self.attention,
            self.attention_block,
            self.feed_forward,
            self.feed_forward_block,
        ):
            layer.build(inputs_shape)
        self.finish_build()

    def call(
        self,
        inputs: Tensor,
        mask: Tensor = None,
        *,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Tensor:
        mask = as_attention_mask("mask", mask, self.scores_shape(inputs))
        hidden, scores = self.in_block(
            self.attention_block,
            inputs,
            lambda x: self.attention(
                x,
                attention_mask=mask,
                return_attention_scores=return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
            ),
            training,
        )
        outputs = self.feed(hidden, inputs, training)
        return (outputs, scores) if return_attention_scores else outputs

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor = None,
        *,
        return_attention_scores: bool = False,
        **_: Any,
    ) -> Any:
        shape = self.scores_shape(inputs)
        mask_axes("mask", mask, shape)
        output = keras.KerasTensor(inputs.shape, self.compute_dtype)
        return (output, keras.KerasTensor(shape, "float32")) if return_attention_scores else output

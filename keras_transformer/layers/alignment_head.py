"""An attention head that is trained to align target tokens with source tokens."""

from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import check_vectors, known_width
from keras_transformer.layers.attention_masks import as_attention_mask
from keras_transformer.layers.composite_layer import CompositeLayer
from keras_transformer.layers.dense import Dense
from keras_transformer.layers.multi_head_attention import attention_weights
from keras_transformer.layers.sublayers import LayerNormalization
from keras_transformer.types import LAYER_NORM_EPSILON, Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class AlignmentHead(CompositeLayer):
    """Aligns target tokens with source tokens, and returns the decoder's vectors unchanged.

    The head reads the output of a decoder layer and the output of the encoder. In guided training,
    the cross-entropy between given alignments and the head's attention is added to the loss.
    Because the head has its own weights, it can also be trained after the rest of the model, whose
    translations then stay the same.

    Each token attends from its own position, so the head sees the token itself and the tokens
    before it. The cross-attention of the decoder only sees the tokens before it, because it helps
    to predict the token.

    Args:
        alignment_layer: number of the decoder layer whose output the head reads, from 1. The layer
            itself does not use it.
        key_dim: size of the queries and keys.
        alignment_head: number of a head of the layer's cross-attention, from 1, that aligns words
            instead, as in Marian models. The layer then has no weights and only records the two
            numbers.
        layer_norm_epsilon: number added to the variance when the inputs are normalized.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, target_length, hidden_dim), the output of the decoder layer.
        memory: tensor (batch, source_length, memory_dim), the output of the encoder.
        memory_mask: boolean mask of the source, as in `TransformerDecoderLayer`.
        links: float tensor (batch, target_length, source_length), the weight of each link in the
            loss; None adds no loss. See `data.WordLinks`.

    Returns:
        The `inputs`.

    Example:
        >>> import numpy as np
        >>> head = AlignmentHead(alignment_layer=1, key_dim=4)
        >>> x, memory = np.ones((1, 3, 8), "float32"), np.ones((1, 5, 8), "float32")
        >>> tuple(head(x, memory).shape), tuple(head.attend(x, memory).shape)
        ((1, 3, 8), (1, 3, 5))

    Reference: Garg et al., "Jointly Learning to Align and Translate with Transformer Models", 2019.
        They guide a head of the cross-attention instead.
    """

    def __init__(
        self,
        alignment_layer: int,
        key_dim: int,
        *,
        alignment_head: int | None = None,
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.autocast = False  # in float16, the shares of a batch would round to 0
        if alignment_head is not None:
            return
        self.norm = LayerNormalization(
            epsilon=layer_norm_epsilon, dtype=self.dtype_policy, name="norm"
        )
        self.query, self.key = (
            Dense(key_dim, use_bias=False, dtype=self.dtype_policy, name=name)
            for name in ("query", "key")
        )

    def build(self, inputs_shape: Shape, memory_shape: Shape) -> None:
        known_width("inputs", inputs_shape)
        known_width("memory", memory_shape)
        if self.alignment_head is None:
            self.norm.build(inputs_shape)
            self.query.build(inputs_shape)
            self.key.build(memory_shape)
        self.finish_build()

    def call(
        self,
        inputs: Tensor,
        memory: Tensor,
        *,
        memory_mask: Tensor = None,
        links: Tensor = None,
    ) -> Tensor:
        if links is not None:
            weights = self.attend(inputs, memory, memory_mask)
            self.add_loss(-ops.sum(links * ops.log(ops.maximum(weights, keras.config.epsilon()))))
        return inputs

    def attend(self, inputs: Tensor, memory: Tensor, memory_mask: Tensor = None) -> Tensor:
        """Return the alignment of each target token with the source.

        Args:
            inputs, memory, memory_mask: see the call arguments.

        Returns:
            float32 tensor (batch, target_length, source_length); each row sums to 1.

        Raises:
            ValueError: `inputs` or `memory` is not of rank 3, or the mask has the wrong shape.
        """
        check_vectors("inputs", inputs.shape)
        check_vectors("memory", memory.shape)
        shape = (inputs.shape[0], 1, inputs.shape[1], memory.shape[1])
        mask = as_attention_mask("memory_mask", memory_mask, shape)
        query = self.query(self.norm(inputs))
        return attention_weights(query, self.key(memory), mask if mask is None else mask[:, 0])

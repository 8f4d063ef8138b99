"""The floating-point operations of a Transformer, counted from its architecture."""

import keras
import numpy as np
from numpy.typing import ArrayLike, NDArray

from keras_transformer.layers import MultiHeadAttention
from keras_transformer.models import Transformer

# The gradient of a product takes two products of its size, one for each factor.
TRAINING_PER_FORWARD = 3


class TransformerFlops:
    """Counts the operations of matrix products, by the lengths of the sentences.

    A product of an m x k and a k x n matrix counts 2mnk. Attention counts every position of a
    sentence with every other one, as it is computed; a causal mask saves nothing. Restricted
    self-attention counts every position with as many as it sees in the middle of a sentence. Only
    real tokens count, not padding. Softmax, normalization, dropout, embedding lookups and the
    optimizer are left out: some percent of a small model, below one percent of a large one.

    Args:
        model: a model of `build_transformer`, or a training model over its layers.

    Raises:
        ValueError: the model lacks the layers of `build_transformer`.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> flops = TransformerFlops(build_transformer("tiny", vocabulary_size=8000))
        >>> flops.training([12, 7], [10, 8]) == 3 * flops.forward([12, 7], [10, 8])
        True

    Reference: Chowdhery et al., "PaLM: Scaling Language Modeling with Pathways", 2022, appendix B.
    """

    def __init__(self, model: keras.Model) -> None:
        layers = Transformer.of(model)
        if layers.is_causal:
            raise ValueError(
                "`model` must come from `build_transformer`. Received: a language model"
            )
        embedding = layers.target_embedding
        width = embedding.hidden_dim
        encoder = [
            _Counts(layer.attention, layer.intermediate_dim, width)
            for layer in layers.encoder_layers
        ]
        decoder = [
            _Counts(layer.self_attention, layer.intermediate_dim, width)
            for layer in layers.decoder_layers
        ]
        self._per_source_token = sum(c.self_projections + c.feed_forward for c in encoder)
        self._per_source_token += sum(c.memory_projections for c in decoder)
        self._per_target_token = 2 * embedding.hidden_dim * embedding.vocabulary_size
        self._per_target_token += sum(
            c.self_projections + c.query_projections + c.feed_forward for c in decoder
        )
        self._encoder, self._decoder = encoder, decoder

    def forward(self, source_lengths: ArrayLike, target_lengths: ArrayLike) -> int:
        """Operations of the forward pass, logits included.

        Args:
            source_lengths: integers `(sentences,)`, source tokens with end of sentence.
            target_lengths: integers `(sentences,)`, target tokens with end of sentence.
        """
        source = np.asarray(source_lengths, dtype="int64")
        target = np.asarray(target_lengths, dtype="int64")
        return int(
            self._per_source_token * source.sum()
            + self._per_target_token * target.sum()
            + sum(c.self_attention(source) for c in self._encoder)
            + sum(c.self_attention(target) for c in self._decoder)
            + sum(c.attention for c in self._decoder) * (target * source).sum()
        )

    def training(self, source_lengths: ArrayLike, target_lengths: ArrayLike) -> int:
        """Operations of forward and backward pass, all weights trained; arguments as `forward`."""
        return TRAINING_PER_FORWARD * self.forward(source_lengths, target_lengths)


class _Counts:
    """Operations of one layer: per token, `attention` per pair of tokens."""

    def __init__(
        self, attention: MultiHeadAttention, intermediate_dim: int, hidden_dim: int
    ) -> None:
        key_width = attention.num_heads * attention.key_dim
        value_width = attention.num_heads * attention.value_dim
        per_unit = 2 * hidden_dim
        self.query_projections = per_unit * (key_width + value_width)  # and the output's
        self.memory_projections = per_unit * (key_width + value_width)  # keys and values
        self.self_projections = self.query_projections + self.memory_projections
        self.attention = 2 * (key_width + value_width)
        self.window = attention.attention_window
        self.feed_forward = 2 * per_unit * intermediate_dim

    def self_attention(self, lengths: NDArray[np.int64]) -> int:
        """Operations of the self-attention in sentences of some lengths."""
        seen = lengths if self.window is None else np.minimum(lengths, self.window)
        return self.attention * int((lengths * seen).sum())

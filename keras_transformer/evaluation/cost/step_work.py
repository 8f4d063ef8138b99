"""The work of each training step: its tokens, padding and operations."""

import dataclasses
import functools
from collections.abc import Callable, Hashable, Iterable
from typing import Literal, overload

import keras
import numpy as np
from numpy.typing import ArrayLike, NDArray

from keras_transformer.data import BatchPlan
from keras_transformer.errors import refuse
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.transformer_layer import TransformerLayer
from keras_transformer.models import Transformer

KEPT_STEPS = 64
# The gradient of a product takes two products of the same size, one for each factor.
TRAINING_PER_FORWARD = 3


@dataclasses.dataclass(frozen=True)
class StepWork:
    """The work of each training step, for the meters of a training.

    The functions take a zero-based step. None means unknown.

    Args:
        target_tokens: number of target tokens, with end of sentence, without padding.
        padding_share: share of padding in the batch.
        flops: floating-point operations for the real tokens.
        peak_flops: peak FLOP/s of all devices together, if known; see `DeviceSpeed`.
        shape_to_compile: the step is compiled again for each new value; by default the same value
            for all steps.

    Example:
        >>> work = StepWork(target_tokens=lambda step: 100, flops=lambda step: 5_000)
        >>> work.total("target_tokens", range(3)), work.total("flops", range(3))
        (300, 15000)
    """

    target_tokens: Callable[[int], int]
    padding_share: Callable[[int], float] | None = None
    flops: Callable[[int], int] | None = None
    peak_flops: float | None = None
    shape_to_compile: Callable[[int], Hashable] = lambda step: None

    @classmethod
    def of(cls, plan: BatchPlan, model: keras.Model, peak_flops: float | None = None) -> "StepWork":
        """The work of the steps of a plan.

        Args:
            plan: the plan for the training text.
            model: a model from `build_transformer`, or a training model over its layers.
            peak_flops: as above.
        """
        count = TransformerFlops(model)
        passes = 2 if getattr(model, "r_drop", 0) else 1

        def flops(step: int) -> int:
            pairs = plan.batch(step)
            return passes * count.training(plan.source_lengths[pairs], plan.target_lengths[pairs])

        cache = functools.lru_cache(KEPT_STEPS)  # several callbacks ask for the same steps
        work = cls(
            cache(plan.target_tokens), cache(plan.padding_share_of), cache(flops), peak_flops
        )
        if plan.shapes is None:
            return work
        return dataclasses.replace(work, shape_to_compile=plan.padded_shape)

    @overload
    def total(self, name: Literal["target_tokens"], steps: Iterable[int]) -> int: ...

    @overload
    def total(self, name: Literal["flops"], steps: Iterable[int]) -> int | None: ...

    def total(self, name: Literal["target_tokens", "flops"], steps: Iterable[int]) -> int | None:
        """The sum over steps, counted from 0; None if unknown."""
        function = getattr(self, name)
        return None if function is None else sum(int(function(step)) for step in steps)


class TransformerFlops:
    """Counts the operations of matrix products, from sentence lengths.

    The product of an m x k and a k x n matrix counts as 2mnk. Attention counts all pairs of
    positions in a sentence, as it computes them all; a causal mask saves nothing. Restricted
    self-attention counts, for every position, as many positions as it sees in the middle of a
    sentence. Only real tokens count, not padding. Softmax, normalization, dropout, embedding
    lookups and the optimizer are left out: a few percent for a small model, less than one percent
    for a large model.

    Args:
        model: a model from `build_transformer`, or a training model over its layers.

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
            refuse("model", "come from `build_transformer`", layers.name)
        embedding = layers.target_embedding
        width = embedding.hidden_dim
        encoder = [
            _Counts(layer.attention, layer.intermediate_dim, width, layer)
            for layer in layers.encoder_layers
        ]
        decoder = [
            _Counts(layer.cross_attention, layer.intermediate_dim, width, layer)
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
        """Operations of the forward pass, including logits.

        Args:
            source_lengths: numbers of source tokens, with end of sentence: integers `(sentences,)`.
            target_lengths: numbers of target tokens, with end of sentence: integers `(sentences,)`.
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
        """Operations of forward and backward pass for all weights; arguments as in `forward`."""
        return TRAINING_PER_FORWARD * self.forward(source_lengths, target_lengths)


class _Counts:
    """Operations of one layer per token; `attention` is per pair of tokens."""

    def __init__(
        self,
        attention: MultiHeadAttention,
        intermediate_dim: int,
        hidden_dim: int,
        layer: TransformerLayer,
    ) -> None:
        key_width = attention.num_heads * attention.key_dim
        value_width = attention.num_heads * attention.value_dim
        per_unit = 2 * hidden_dim
        self.query_projections = per_unit * (key_width + value_width)  # and the output projection
        self.memory_projections = per_unit * (key_width + value_width)  # keys and values
        self.self_projections = self.query_projections + self.memory_projections
        self.attention = 2 * (key_width + value_width)
        self.window = layer.attention_window
        self.pairs = self.attention
        if getattr(layer, "decoder_unit", "attention") == "ssru":
            self.self_projections, self.pairs = 2 * per_unit * hidden_dim, 0
        self.feed_forward = 2 * per_unit * intermediate_dim

    def self_attention(self, lengths: NDArray[np.int64]) -> int:
        """Operations of self-attention in sentences of these lengths."""
        seen = lengths if self.window is None else np.minimum(lengths, self.window)
        return self.pairs * int((lengths * seen).sum())

"""The layers of a language model and the one forward pass through them."""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from keras_transformer.layers import PositionalEmbedding, TransformerDecoderLayer
from keras_transformer.models import layer_names
from keras_transformer.models.decoder_stack import DecoderStack, StepWeights
from keras_transformer.types import Tensor


@dataclasses.dataclass(frozen=True)
class CausalStack:
    """The layers of a decoder-only model, by their role; the counterpart of `TransformerStacks`.

    `SequenceGenerator` takes one in the place of a model, so a functional model that was made of
    these layers by hand generates too.

    Args:
        embedding: `PositionalEmbedding` of the tokens and of the logits.
        decoder_layers: list of `TransformerDecoderLayer`, called without memory.
        decoder_norm: layer normalization behind the layers, or None.

    Raises:
        ValueError: the embedding, or a layer, is of another class.

    Example:
        >>> import numpy as np
        >>> embedding = PositionalEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> layer = TransformerDecoderLayer(intermediate_dim=8, num_heads=2)
        >>> stack = CausalStack(embedding, [layer])
        >>> tuple(stack.decode(np.array([[1, 2, 3]])).shape)
        (1, 3, 10)
    """

    embedding: PositionalEmbedding
    decoder_layers: list[TransformerDecoderLayer]
    decoder_norm: Any = None

    is_causal: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.embedding, PositionalEmbedding):
            raise ValueError(
                f"`embedding` must be a `PositionalEmbedding`. Received: {self.embedding!r}"
            )
        others = [e for e in self.decoder_layers if not isinstance(e, TransformerDecoderLayer)]
        if others or not self.decoder_layers:
            raise ValueError(
                "`decoder_layers` must be one or more `TransformerDecoderLayer`. "
                f"Received: {self.decoder_layers}"
            )

    @classmethod
    def of(cls, model: keras.Model) -> "CausalStack":
        """The layers of a model that `build_language_model` built, or that was reloaded.

        Raises:
            ValueError: the model has no such layers.
        """
        by_name = {layer.name: layer for layer in model.layers}
        layers = layer_names.numbered(by_name, layer_names.DECODER_LAYER)
        embedding = by_name.get(layer_names.SHARED_EMBEDDING)
        if layer_names.SOURCE_MASK in by_name or not layers or embedding is None:
            raise ValueError(
                "`model` must come from `build_transformer` or `build_language_model`. Received: a "
                f"model with the layers {list(by_name)}"
            )
        return cls(embedding, layers, by_name.get(layer_names.DECODER_NORM))

    @property
    def hidden_dim(self) -> int:
        """The width of the model."""
        return self.embedding.hidden_dim

    @property
    def compute_dtype(self) -> str:
        """The type that the layers compute in, such as "bfloat16"."""
        return self.embedding.compute_dtype

    @property
    def padding_id(self) -> int | None:
        """The id of padding; None if the model does not know it."""
        return self.embedding.mask_id

    @property
    def source_vocabulary_size(self) -> int:
        """Number of tokens of prompts."""
        return self.embedding.vocabulary_size

    @property
    def vocabulary_size(self) -> int:
        """Number of tokens, the size of the logits."""
        return self.embedding.vocabulary_size

    @property
    def max_length(self) -> int | None:
        """Maximum length of a sequence; None if it is unlimited."""
        return self.embedding.kind.limit

    def decode(self, token_ids: Tensor) -> Tensor:
        """The forward pass over whole sequences.

        Args:
            token_ids: integer tensor (batch, length), starting with BOS.

        Returns:
            float32 logits (batch, length, vocabulary_size); those at position i are for token
            i + 1.
        """
        return self._decoder.decode(token_ids)

    def logits(self, source_ids: None, target_ids: Tensor) -> Tensor:
        """As `decode`; `source_ids` must be None.

        Raises:
            ValueError: `source_ids` is given.
        """
        if source_ids is not None:
            raise ValueError(
                "`source_ids` must be None for a model without encoder. "
                f"Received: source_ids {_received(source_ids)}"
            )
        return self.decode(target_ids)

    def cross_attention(
        self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None
    ) -> Tensor:
        """Raise a `ValueError`: such a model attends to itself alone."""
        raise ValueError(
            "A model without encoder has no attention to a source. "
            f"Received: source_ids {_received(source_ids)}"
        )

    def start(
        self, prompt_ids: Tensor, *, beam_size: Any, length: Any, independent: bool = False
    ) -> tuple[tuple[Any, ...], Any]:
        """What stepwise decoding starts from, before the first token.

        Args:
            prompt_ids: integer tensor (batch, prompt_length), of which the batch counts here.
            beam_size: hypotheses a prompt.
            length: number of positions the cache has room for; None: it grows, on TensorFlow.
            independent: whether no hypothesis ever takes another's place, as in sampling.

        Returns:
            memory_state: empty.
            cache: as of `DecoderStack.start_cache`.
        """
        return (), self._decoder.start_cache(prompt_ids, beam_size, length, independent=independent)

    def step_weights(self) -> StepWeights:
        """What `step` takes as `weights`; see `DecoderStack.step_weights`."""
        return self._decoder.step_weights()

    def step(
        self,
        token_ids: Tensor,
        index: Tensor,
        memory_state: tuple[Any, ...],
        cache: Any,
        weights: Any = None,
    ) -> tuple[Tensor, Any]:
        """One position of every hypothesis.

        Args:
            token_ids: integer tensor (batch, beam_size), the tokens at position `index`.
            index: scalar integer tensor, counted from 0, where BOS is.
            memory_state, cache: from `start` or from the step before.
            weights: from `step_weights`, for a loop of many steps; None: made in this step.

        Returns:
            logits: float32 tensor (batch, beam_size, vocabulary_size), for position `index + 1`.
            cache: the given one with this position written.
        """
        return self._decoder.step(token_ids, index, cache, weights=weights)

    @property
    def _decoder(self) -> DecoderStack:
        return DecoderStack(self.embedding, self.decoder_layers, self.decoder_norm)


def _received(ids: Tensor | None) -> str:
    return "None" if ids is None else f"of shape {tuple(ops.convert_to_tensor(ids).shape)}"

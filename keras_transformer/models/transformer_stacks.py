"""The layers of one Transformer and the one forward pass through them.

Building the functional model, stepwise decoding, export and interpretation all go through here.
"""

import dataclasses
from typing import Any, ClassVar

import keras
from keras import ops

from keras_transformer.argument_checks import check_non_negative_int
from keras_transformer.layers import (
    PaddingMask,
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.models import layer_names
from keras_transformer.models.decoder_stack import DecoderStack, StepWeights
from keras_transformer.types import Tensor


@dataclasses.dataclass(frozen=True)
class TransformerStacks:
    """The layers of a Transformer, by their role.

    Args:
        source_mask: `PaddingMask` of the source.
        source_embedding: `PositionalEmbedding` of the source.
        target_embedding: `PositionalEmbedding` of the target and of the logits; the same layer as
            `source_embedding` where the vocabulary is shared.
        encoder_layers: list of `TransformerEncoderLayer`.
        decoder_layers: list of `TransformerDecoderLayer`.
        encoder_norm, decoder_norm: layer normalization behind a stack, or None.
    """

    source_mask: PaddingMask
    source_embedding: PositionalEmbedding
    target_embedding: PositionalEmbedding
    encoder_layers: list[TransformerEncoderLayer]
    decoder_layers: list[TransformerDecoderLayer]
    encoder_norm: Any = None
    decoder_norm: Any = None

    is_causal: ClassVar[bool] = False

    @classmethod
    def of(cls, model: keras.Model) -> "TransformerStacks":
        """The layers of a model that `build_transformer` built, or that was reloaded.

        Raises:
            ValueError: the model has no such layers.
        """
        by_name = {layer.name: layer for layer in model.layers}
        shared = by_name.get(layer_names.SHARED_EMBEDDING)
        try:
            return cls(
                source_mask=by_name[layer_names.SOURCE_MASK],
                source_embedding=shared or by_name[layer_names.SOURCE_EMBEDDING],
                target_embedding=shared or by_name[layer_names.TARGET_EMBEDDING],
                encoder_layers=layer_names.numbered(by_name, layer_names.ENCODER_LAYER),
                decoder_layers=layer_names.numbered(by_name, layer_names.DECODER_LAYER),
                encoder_norm=by_name.get(layer_names.ENCODER_NORM),
                decoder_norm=by_name.get(layer_names.DECODER_NORM),
            )
        except KeyError as error:
            raise ValueError(
                f"`model` must come from `build_transformer`. Received: a model without the layer "
                f"{error}"
            ) from None

    @property
    def hidden_dim(self) -> int:
        """The width of the model."""
        return self.target_embedding.hidden_dim

    @property
    def compute_dtype(self) -> str:
        """The type that the layers compute in, such as "bfloat16"."""
        return self.target_embedding.compute_dtype

    @property
    def padding_id(self) -> int:
        """The id that fills up source rows."""
        return self.source_mask.padding_id

    @property
    def source_vocabulary_size(self) -> int:
        """Number of source tokens."""
        return self.source_embedding.vocabulary_size

    @property
    def vocabulary_size(self) -> int:
        """Number of target tokens, the size of the logits."""
        return self.target_embedding.vocabulary_size

    @property
    def max_length(self) -> int | None:
        """Maximum length of a sequence; None if it is unlimited."""
        return self.target_embedding.kind.limit

    @property
    def _decoder(self) -> DecoderStack:
        return DecoderStack(self.target_embedding, self.decoder_layers, self.decoder_norm)

    def encode(self, source_ids: Tensor) -> tuple[Tensor, Tensor]:
        """The forward pass through the encoder.

        Args:
            source_ids: integer tensor (batch, source_length), padded.

        Returns:
            memory: tensor (batch, source_length, hidden_dim).
            memory_mask: boolean tensor (batch, 1, source_length), True at real tokens.
        """
        mask = self.source_mask(source_ids)
        hidden = self.source_embedding(source_ids)
        for layer in self.encoder_layers:
            hidden = layer(hidden, mask=mask)
        return self.encoder_norm(hidden) if self.encoder_norm else hidden, mask

    def decode(self, target_ids: Tensor, memory: Tensor, memory_mask: Tensor) -> Tensor:
        """The forward pass through the decoder, over whole sequences.

        Args:
            target_ids: integer tensor (batch, target_length), starting with BOS.
            memory, memory_mask: from `encode`.

        Returns:
            float32 logits (batch, target_length, vocabulary_size); those at position i are for
            token i + 1.
        """
        return self._decoder.decode(target_ids, memory, memory_mask)

    def logits(self, source_ids: Tensor, target_ids: Tensor) -> Tensor:
        """As `decode`, from the ids of both sides."""
        return self.decode(target_ids, *self.encode(source_ids))

    def cross_attention(
        self, source_ids: Tensor, target_ids: Tensor, layer: int | None = None
    ) -> Tensor:
        """How much each position of the target attends to each of the source.

        Args:
            source_ids: integer tensor (batch, source_length), padded.
            target_ids: integer tensor (batch, target_length), starting with BOS.
            layer: number of the decoder layer, counted from 0; None: the last but one, or the only
                one.

        Returns:
            float32 (batch, target_length, source_length), the mean over the heads; every row sums
            to 1. The row at position i is for token i + 1, as the logits are.

        Raises:
            ValueError: the decoder has no such layer.

        Reference: Garg et al., "Jointly Learning to Align and Translate with Transformer Models",
        2019, section 3, for the last layer but one.
        """
        num_layers = len(self.decoder_layers)
        layer = max(num_layers - 2, 0) if layer is None else layer
        check_non_negative_int("layer", layer)
        if layer >= num_layers:
            raise ValueError(
                f"`layer` must be less than the decoder's {num_layers}. Received: layer={layer}"
            )
        memory, memory_mask = self.encode(source_ids)
        hidden = self._decoder.hidden(target_ids, memory, memory_mask, layer)
        _, _, scores = self.decoder_layers[layer](
            hidden, memory, memory_mask=memory_mask, return_attention_scores=True
        )
        return ops.mean(scores, axis=1)

    def start(
        self, source_ids: Tensor, *, beam_size: Any, length: Any, independent: bool = False
    ) -> tuple[tuple[Any, ...], Any]:
        """Encode the sources: what stepwise decoding starts from.

        Args:
            source_ids: integer tensor (batch, source_length), padded.
            beam_size: hypotheses a sentence.
            length: number of positions the cache has room for; None: it grows, on TensorFlow.
            independent: whether no hypothesis ever takes another's place, as in sampling.

        Returns:
            memory_state: what is fixed per sentence: the mask, and every layer's projected memory.
            cache: as of `DecoderStack.start_cache`.
        """
        memory, memory_mask = self.encode(source_ids)
        memory_state = (
            memory_mask,
            [layer.project_memory(memory) for layer in self.decoder_layers],
        )
        return memory_state, self._decoder.start_cache(
            source_ids, beam_size, length, independent=independent
        )

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
        """One position of the decoder, for every hypothesis.

        Args:
            token_ids: integer tensor (batch, beam_size), the tokens at position `index`.
            index: scalar integer tensor, counted from 0, where BOS is.
            memory_state, cache: from `start` or from the step before.
            weights: from `step_weights`, for a loop of many steps; None: made in this step.

        Returns:
            logits: float32 tensor (batch, beam_size, vocabulary_size), for position `index + 1`.
            cache: the given one with this position written.
        """
        memory_mask, memories = memory_state
        return self._decoder.step(token_ids, index, cache, memories, memory_mask, weights)

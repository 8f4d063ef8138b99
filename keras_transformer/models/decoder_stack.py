"""The one forward pass through the layers of a decoder, with or without a memory."""

import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers import PositionalEmbedding, TransformerDecoderLayer
from keras_transformer.layers.key_value_cache import unknown_zero
from keras_transformer.models.decoder_cache import start_decoder_cache
from keras_transformer.types import Tensor


class StepWeights(NamedTuple):
    """Matrices that every step of a loop multiplies by."""

    cast: list[tuple[keras.Variable, Tensor]]  # variables, and their values in the compute dtype
    output_matrix: Tensor  # (hidden_dim, vocabulary_size), laid out as the product reads it

    def in_place(self) -> contextlib.AbstractContextManager[Any]:
        """A context in which the variables have the values that were cast."""
        if not self.cast:
            return contextlib.nullcontext()
        scope = keras.StatelessScope()
        for update in self.cast:
            scope.add_update(update)  # Keras casts a `state_mapping` to the variables' dtypes
        return scope


@dataclasses.dataclass(frozen=True)
class DecoderStack:
    """The layers of a decoder: the target side of a Transformer, or a whole language model.

    Args:
        embedding: `PositionalEmbedding` of the tokens and of the logits.
        layers: list of `TransformerDecoderLayer`.
        norm: layer normalization behind the layers, or None.
    """

    embedding: PositionalEmbedding
    layers: Sequence[TransformerDecoderLayer]
    norm: Any = None

    @property
    def _table(self) -> int:
        """The embedding's table of the target, the last one where the source has one too."""
        return self.embedding.num_tables - 1

    def decode(
        self, token_ids: Tensor, memory: Tensor | None = None, memory_mask: Tensor | None = None
    ) -> Tensor:
        """The forward pass over whole sequences.

        Args:
            token_ids: integer tensor (batch, length), starting with BOS.
            memory: tensor (batch, source_length, hidden_dim); None: a decoder without
                cross-attention.
            memory_mask: boolean tensor (batch, 1, source_length), True at real tokens.

        Returns:
            float32 logits (batch, length, vocabulary_size); those at position i are for token
            i + 1.
        """
        return self._logits(self.hidden(token_ids, memory, memory_mask, len(self.layers)))

    def hidden(
        self,
        token_ids: Tensor,
        memory: Tensor | None,
        memory_mask: Tensor | None,
        num_layers: int,
    ) -> Tensor:
        """As `decode`, but the output of the first layers: (batch, length, hidden_dim)."""
        hidden = self.embedding(token_ids, table=self._table)
        for layer in self.layers[:num_layers]:
            hidden = layer(hidden, memory, memory_mask=memory_mask)
        return hidden

    def start_cache(
        self, ids: Tensor, beam_size: Any, length: Any, *, independent: bool = False
    ) -> Any:
        """What `step` takes from one position to the next.

        Args:
            ids: integer tensor (batch, any length), such as the sources.
            beam_size: int or scalar tensor.
            length: the same, number of positions there is room for; None: the cache grows, see
                `layers.key_value_cache`.
            independent: whether no hypothesis ever takes another's place.

        Returns:
            What the embedding counts with, and the `DecoderCache`, both to reorder as the
            hypotheses are.
        """
        batch_size, grows = ops.shape(ids)[0], length is None
        counts = self.embedding.start_cache(batch_size, beam_size)
        return counts, start_decoder_cache(
            self.layers,
            batch_size,
            beam_size,
            unknown_zero(ids) if grows else length,
            grows=grows,
            independent=independent,
        )

    def step_weights(self) -> StepWeights:
        """The matrices as `step` multiplies by them, to be made once before a loop of steps."""
        cast = [
            (variable, ops.cast(variable, layer.compute_dtype))
            for layer in self.layers
            for variable in layer.variables
            if len(variable.shape) == 2
            and keras.backend.is_float_dtype(variable.dtype)
            and variable.dtype != layer.compute_dtype
        ]
        return StepWeights(cast, self.embedding.token_embedding.output_matrix())

    def step(
        self,
        token_ids: Tensor,
        index: Tensor,
        cache: Any,
        memories: Sequence[Any] | None = None,
        memory_mask: Tensor | None = None,
        weights: StepWeights | None = None,
    ) -> tuple[Tensor, Any]:
        """One position of every hypothesis.

        Args:
            token_ids: integer tensor (batch, beam_size), the tokens at position `index`.
            index: scalar integer tensor, counted from 0, where BOS is.
            cache: from `start_cache` or from the step before.
            memories: every layer's projected memory; None: layers without cross-attention.
            memory_mask: as of `decode`.
            weights: from `step_weights`; None: they are made in this step.

        Returns:
            logits: float32 tensor (batch, beam_size, vocabulary_size), for position `index + 1`.
            cache: the given one with this position written.
        """
        counts, layer_caches = cache
        hidden, counts = self.embedding.step(token_ids, index, counts, table=self._table)
        layer_caches, mask = layer_caches.begin_step(ops.shape(token_ids), index)
        rows = []
        memories = memories or [None] * len(self.layers)
        with weights.in_place() if weights else contextlib.nullcontext():
            for layer, memory, row in zip(self.layers, memories, layer_caches.rows(), strict=True):
                hidden, row = layer.step(hidden, index, memory, memory_mask, row, mask)
                rows.append(row)
        matrix = weights.output_matrix if weights else None
        return self._logits(hidden, matrix), (counts, layer_caches.with_rows(rows))

    def _logits(self, hidden: Tensor, output_matrix: Tensor | None = None) -> Tensor:
        if self.norm:
            hidden = self.norm(hidden)
        if output_matrix is None:
            return self.embedding(hidden, reverse=True)
        return self.embedding.token_embedding.logits(hidden, output_matrix)

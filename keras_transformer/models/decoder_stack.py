"""The one forward pass through the layers of a decoder, with or without a memory."""

import dataclasses
from collections.abc import Sequence
from typing import Any

from keras_transformer.layers import PositionalEmbedding, TransformerDecoderLayer
from keras_transformer.types import Tensor


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

    def start_cache(self, batch_size: Any, beam_size: Any, length: Any) -> Any:
        """What the embedding counts with and every layer's empty cache, of `length` positions.

        All tensors start with (batch_size, beam_size).
        """
        counts = self.embedding.start_cache(batch_size, beam_size)
        return counts, [layer.start_cache(batch_size, beam_size, length) for layer in self.layers]

    def step(
        self,
        token_ids: Tensor,
        index: Tensor,
        cache: Any,
        memories: Sequence[Any] | None = None,
        memory_mask: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """One position of every hypothesis.

        Args:
            token_ids: integer tensor (batch, beam_size), the tokens at position `index`.
            index: scalar integer tensor, counted from 0, where BOS is.
            cache: from `start_cache` or from the step before.
            memories: every layer's projected memory; None: layers without cross-attention.
            memory_mask: as of `decode`.

        Returns:
            logits: float32 tensor (batch, beam_size, vocabulary_size), for position `index + 1`.
            cache: the given one with this position filled.
        """
        counts, layer_caches = cache
        hidden, counts = self.embedding.step(token_ids, index, counts, table=self._table)
        new_caches = []
        memories = memories or [None] * len(self.layers)
        for layer, memory, layer_cache in zip(self.layers, memories, layer_caches, strict=True):
            hidden, layer_cache = layer.step(hidden, index, memory, memory_mask, layer_cache)
            new_caches.append(layer_cache)
        return self._logits(hidden), (counts, new_caches)

    def _logits(self, hidden: Tensor) -> Tensor:
        if self.norm:
            hidden = self.norm(hidden)
        return self.embedding(hidden, reverse=True)

"""Keys and values of the decoder's layers in a search, by how the search moves its hypotheses.

Every class here has the same methods:

- `begin_step(shape, index)`: the cache at position `index`, which every hypothesis of `shape`,
  (batch, beams), now writes; and the mask of the entries that each may attend to, as
  `MultiHeadAttention.step` takes it;
- `rows()`: the layers' caches as `TransformerDecoderLayer.step` takes them;
- `with_rows(layers)`: the cache with the layers' caches after a step;
- `reorder(parents)`: the cache of the next hypotheses; see `beam_search`.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

import keras
from keras import ops

from keras_transformer.decoding.hypothesis_arrays import reorder
from keras_transformer.layers import TransformerDecoderLayer
from keras_transformer.layers.key_value_cache import History, ancestor_mask, start_history
from keras_transformer.layers.ssru import RecurrentState
from keras_transformer.types import Tensor

# In a shared cache, each hypothesis scores the entries of all hypotheses of its sentence. In larger
# beams, each hypothesis has its own cache, which the search reorders.
MOST_SHARING = 8


class IndependentCache(NamedTuple):
    """Each hypothesis has its own row, and none ever takes another's place: nothing moves."""

    layers: list[Any]  # of `KeyValueCache`, rows: batch * beams

    def begin_step(self, shape: Any, index: Tensor) -> tuple["IndependentCache", None]:
        return self, None

    def rows(self) -> list[Any]:
        return self.layers

    def with_rows(self, layers: list[Any]) -> "IndependentCache":
        return IndependentCache(layers)

    def reorder(self, parents: Tensor) -> "IndependentCache":
        return self


class SharedCache(NamedTuple):
    """All hypotheses of a sentence share a row: what moves is which beam wrote their entries.

    The states of recurrent units are not shared; they move.
    """

    ancestors: History  # int32 (batch, beams, length)
    layers: list[Any]  # of `KeyValueCache`, rows: batch; or of `RecurrentState`

    def begin_step(self, shape: Any, index: Tensor) -> tuple["SharedCache", Tensor]:
        own = ops.broadcast_to(ops.arange(shape[1], dtype="int32"), shape)
        ancestors = self.ancestors.write(own, index)
        return self._replace(ancestors=ancestors), ancestor_mask(ancestors)

    def rows(self) -> list[Any]:
        return self.layers

    def with_rows(self, layers: list[Any]) -> "SharedCache":
        return self._replace(layers=layers)

    def reorder(self, parents: Tensor) -> "SharedCache":
        layers = [
            reorder(layer, parents) if isinstance(layer, RecurrentState) else layer
            for layer in self.layers
        ]
        return self._replace(ancestors=reorder(self.ancestors, parents), layers=layers)


class ReorderedCache(NamedTuple):
    """Each hypothesis has its own row and takes over its parent's entries."""

    layers: list[Any]  # of `KeyValueCache`, whose arrays are (batch, beams, ...)

    def begin_step(self, shape: Any, index: Tensor) -> tuple["ReorderedCache", None]:
        return self, None

    def rows(self) -> list[Any]:
        return keras.tree.map_structure(
            lambda values: ops.reshape(values, (-1, *ops.shape(values)[2:])), self.layers
        )

    def with_rows(self, layers: list[Any]) -> "ReorderedCache":
        shape = ops.shape(keras.tree.flatten(self.layers)[0])[:2]
        return ReorderedCache(_by_sentence(layers, shape))

    def reorder(self, parents: Tensor) -> "ReorderedCache":
        return ReorderedCache(reorder(self.layers, parents))


DecoderCache: TypeAlias = IndependentCache | SharedCache | ReorderedCache


def start_decoder_cache(
    layers: Sequence[TransformerDecoderLayer],
    batch_size: Tensor,
    beam_size: Tensor,
    length: Tensor,
    *,
    grows: bool,
    independent: bool,
) -> DecoderCache:
    """An empty cache.

    Args:
        layers: the decoder's layers.
        batch_size, beam_size, length, grows: as in `MultiHeadAttention.start_cache`.
        independent: whether no hypothesis ever takes another's place.
    """

    def start(rows: Tensor, beams: Tensor) -> list[Any]:
        return [layer.start_cache(rows, beams, length, grows=grows) for layer in layers]

    known_size = beam_size if isinstance(beam_size, int) else None
    if independent or known_size == 1:
        return IndependentCache(start(batch_size * beam_size, 1))
    if known_size is not None and known_size > MOST_SHARING:
        own = start(batch_size * beam_size, 1)
        return ReorderedCache(_by_sentence(own, (batch_size, beam_size)))
    ancestors = start_history((batch_size, beam_size), length, "int32", grows=grows)
    return SharedCache(ancestors, start(batch_size, beam_size))


def _by_sentence(layers: list[Any], shape: Any) -> list[Any]:
    """Arrays (batch * beams, ...) of caches as (batch, beams, ...), with `shape` (batch, beams)."""
    return keras.tree.map_structure(
        lambda values: ops.reshape(values, (*shape, *ops.shape(values)[1:])), layers
    )

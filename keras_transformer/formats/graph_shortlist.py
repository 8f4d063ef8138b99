"""The candidates of a shortlist, computed in an exported graph."""

import numpy as np
from keras import ops

from keras_transformer.text import Shortlist
from keras_transformer.types import Tensor

_MORE_COLUMNS = 8  # a search needs a few columns, even of no token


class GraphShortlist:
    """What `Shortlist.candidates` computes, as a function of tensors.

    The number of candidates depends on the batch, so XLA cannot compile it.
    """

    def __init__(self, shortlist: Shortlist) -> None:
        tokens, size = shortlist.tokenizer.special_tokens, shortlist.tokenizer.vocabulary_size
        counts = np.zeros(shortlist.source_tokenizer.vocabulary_size, "int32")
        counts[: len(shortlist.offsets) - 1] = np.diff(shortlist.offsets)
        counts[tokens.pad] = 0
        starts = np.zeros_like(counts)
        starts[: len(shortlist.offsets) - 1] = shortlist.offsets[:-1]
        is_always, is_never = np.zeros((2, size), bool)
        is_always[[*shortlist.always, tokens.eos]] = True
        is_never[[tokens.pad, tokens.bos]] = True
        self._copies = shortlist.copies
        self._size = size
        self._most = int(counts.max(initial=0))
        # Tensors from outside of the graph: all functions of an export share them.
        self._counts, self._starts = ops.convert_to_tensor(counts), ops.convert_to_tensor(starts)
        self._translations = ops.convert_to_tensor(np.append(shortlist.translations, tokens.pad))
        self._is_always = ops.convert_to_tensor(is_always & ~is_never)
        self._is_possible = ops.convert_to_tensor(~is_never)

    def candidates(self, source_ids: Tensor) -> Tensor:
        """Return the candidates of each sentence, for `SequenceGenerator.search`.

        Args:
            source_ids: int32 (batch, length), tokens and padding.

        Returns:
            int32 (batch, candidates), as from `Shortlist.candidates`.
        """
        batch_size, length = ops.shape(source_ids)
        number = ops.arange(self._most, dtype="int32")
        counts = ops.expand_dims(ops.take(self._counts, source_ids, axis=0), 2)
        places = ops.expand_dims(ops.take(self._starts, source_ids, axis=0), 2) + number
        padding = ops.shape(self._translations)[0] - 1
        places = ops.where(number < counts, places, padding)  # (batch, length, most)
        found = ops.take(self._translations, places, axis=0)
        if self._copies:
            found = ops.concatenate([found, ops.expand_dims(source_ids, 2)], axis=2)
        found = ops.reshape(found, (batch_size, length * (self._most + self._copies)))
        rows = ops.expand_dims(ops.arange(batch_size, dtype="int32"), 1)
        places = ops.stack([ops.broadcast_to(rows, ops.shape(found)), found], axis=2)
        places = ops.reshape(places, (-1, 2))
        ones = ops.ones_like(places[:, 0])
        is_candidate = ops.scatter(places, ones, (batch_size, self._size)) > 0
        is_candidate = ops.logical_and(is_candidate, self._is_possible)
        is_candidate = ops.logical_or(is_candidate, self._is_always)  # (batch, vocabulary)
        # LiteRT has no `nonzero` as Keras makes it.
        is_column = ops.any(is_candidate, axis=0)
        order = ops.where(is_column, self._size - ops.arange(self._size, dtype="int32"), 0)
        columns = self._size - ops.top_k(order, ops.sum(ops.cast(is_column, "int32")))[0]
        ids = ops.where(ops.take(is_candidate, columns, axis=1), columns, -1)
        return ops.pad(ids, [[0, 0], [0, _MORE_COLUMNS]], constant_values=-1)

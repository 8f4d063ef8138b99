"""Positions counted in words: the number of a token's word, and the token's place in that word."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_non_negative_int
from keras_transformer.types import Tensor


class WordPositions(NamedTuple):
    """Where tokens are: two int32 tensors of the same shape.

    Args:
        words: number of the token's word, counted from 1; 0 before the first one.
        places: place of the token in its word, counted from 0.
    """

    words: Tensor
    places: Tensor


class WordCounter:
    """Counts words in sequences of ids, all at once or token by token.

    Args:
        vocabulary_size: number of tokens.
        word_starts: ids that a word begins with, each less than `vocabulary_size`.

    Raises:
        ValueError: `word_starts` is empty, or an id is not in the vocabulary.

    Example:
        >>> counter = WordCounter(10, word_starts=[5, 6])
        >>> positions = counter.positions(ops.convert_to_tensor([[5, 9, 9, 6, 2]]))
        >>> print(*(ops.convert_to_numpy(numbers)[0] for numbers in positions))
        [1 1 1 2 2] [0 1 2 0 1]
    """

    def __init__(self, vocabulary_size: int, word_starts: Sequence[int]) -> None:
        for token in word_starts:
            check_non_negative_int("word_starts", token)
        if not len(word_starts) or max(word_starts) >= vocabulary_size:
            raise ValueError(
                "`word_starts` must be one or more ids less than `vocabulary_size`. "
                f"Received: {list(word_starts)}, vocabulary_size={vocabulary_size}"
            )
        self._vocabulary_size = vocabulary_size
        self._word_starts = list(word_starts)

    def positions(self, ids: Tensor) -> WordPositions:
        """Count in whole sequences.

        Args:
            ids: integer tensor (batch, length).

        Returns:
            `WordPositions` of (batch, length).
        """
        words = ops.cumsum(self._starts(ids), axis=1)
        is_same_word = ops.equal(ops.expand_dims(words, 2), ops.expand_dims(words, 1))
        order = ops.arange(ops.shape(ids)[1])
        is_earlier = ops.expand_dims(order, 1) > ops.expand_dims(order, 0)  # (length, length)
        places = ops.sum(ops.cast(ops.logical_and(is_same_word, is_earlier), "int32"), axis=2)
        return WordPositions(words, places)

    def start(self, shape: tuple[Any, ...]) -> WordPositions:
        """The positions before the first token, tensors of `shape`."""
        return WordPositions(ops.zeros(shape, dtype="int32"), ops.full(shape, -1, dtype="int32"))

    def step(self, ids: Tensor, before: WordPositions) -> WordPositions:
        """Count the next token of each sequence.

        Args:
            ids: integer tensor of any shape.
            before: `WordPositions` of the tokens before, of that shape.

        Returns:
            `WordPositions` of that shape.
        """
        starts = self._starts(ids)
        places = ops.where(starts > 0, 0, before.places + 1)
        return WordPositions(before.words + starts, places)

    @functools.cached_property
    def _is_start(self) -> np.ndarray:
        """By id; made when it is used, as a stranger's vocabulary may be larger than memory."""
        is_start = np.zeros(self._vocabulary_size, bool)
        is_start[self._word_starts] = True
        return is_start

    def _starts(self, ids: Tensor) -> Tensor:
        """1 where a token begins a word, else 0: int32 of the shape of `ids`."""
        return ops.cast(ops.take(self._is_start, ids, axis=0), "int32")

"""BPE dropout: segmentations in which merges are left out at random."""

import dataclasses
import functools
import itertools
import math
import sys
from collections.abc import Container, Sequence, Set

import numpy as np

from keras_transformer.text.sentencepiece_model import SentencePieceModel

# Cached segmentations of chunks: some 50 MB at most.
_CACHED = 2**17
# Longer chunks, as of text without spaces, hardly ever occur twice.
LONGEST_CACHED = 20  # characters


@dataclasses.dataclass(frozen=True)
class _Since:
    """Those of some numbers from `start` on, counted from there."""

    start: int
    numbers: Set[int]

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and self.start + number in self.numbers


class BpeDropout:
    """Draws segmentations of chunks of text with a `SentencePieceModel` of type "bpe".

    Merges are applied from best to worst, as without dropout. Each is dropped with probability
    `alpha` at its turn; its two parts stay apart until one of them is merged with another. See
    [BPE-Dropout](https://arxiv.org/abs/1910.13267).
    """

    def __init__(self, model: SentencePieceModel) -> None:
        self._model = model
        # SentencePiece merges the pair with the highest score first, the leftmost among equals.
        self._ranks = {piece: -score for piece, score in model.scores.items()}
        self._merge = functools.lru_cache(_CACHED)(self._merge_anew)

    def draw(
        self, chunks: Sequence[str], alpha: float, generator: np.random.Generator
    ) -> list[tuple[int, ...]]:
        """Draw a segmentation of each chunk, the ids of its pieces."""
        # A chunk of n characters has n - 1 pairs at first, and two new ones after every merge.
        most_turns = 3 * sum(map(len, chunks))
        drops = np.flatnonzero(generator.random(most_turns) < alpha).tolist()
        every_drop = frozenset(drops)
        drops.append(sys.maxsize)
        turn, rows, merge = 0, [], self._merge
        next_drop = iter(drops)
        drop = next(next_drop)
        for chunk in chunks:
            if len(chunk) > LONGEST_CACHED:
                turns, ids = self._merge_anew(chunk, _Since(turn, every_drop))
                while drop < turn + turns:
                    drop = next(next_drop)
            else:
                dropped: tuple[int, ...] = ()
                turns, ids = merge(chunk, dropped)
                while drop < turn + turns:
                    dropped = (*dropped, drop - turn)
                    drop = next(next_drop)
                    turns, ids = merge(chunk, dropped)
            turn += turns
            rows.append(ids)
        return rows

    def _merge_anew(self, chunk: str, dropped: Container[int]) -> tuple[int, tuple[int, ...]]:
        """Merge a chunk's characters except at the dropped turns; the number of turns, and ids."""
        if chunk in self._model.user_defined:
            return 0, (self._model.ids[chunk],)
        parts = list(chunk)
        split: dict[str, tuple[str, str]] = {}
        pairs = [self._rank(left + right) for left, right in itertools.pairwise(parts)]
        turns = 0
        while pairs and (best := min(pairs)) < math.inf:
            left = pairs.index(best)
            if turns in dropped:
                pairs[left] = math.inf
            else:
                self._join(parts, pairs, left, split)
            turns += 1
        return turns, tuple(id_ for part in parts for id_ in self._ids(part, split))

    def _join(
        self, parts: list[str], pairs: list[float], left: int, split: dict[str, tuple[str, str]]
    ) -> None:
        merged = parts[left] + parts[left + 1]
        split[merged] = parts[left], parts[left + 1]
        parts[left : left + 2] = [merged]
        del pairs[left]
        if left > 0:
            pairs[left - 1] = self._rank(parts[left - 1] + merged)
        if left < len(pairs):
            pairs[left] = self._rank(merged + parts[left + 1])

    def _rank(self, piece: str) -> float:
        return self._ranks.get(piece, math.inf)

    def _ids(self, part: str, split: dict[str, tuple[str, str]]) -> Sequence[int]:
        if part in self._model.unused and part in split:
            return [id_ for half in split[part] for id_ in self._ids(half, split)]
        return [self._model.ids[part]] if part in self._model.ids else self._model.spell(part)

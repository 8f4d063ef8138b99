"""Segmentations drawn by the probabilities of a unigram model."""

import bisect
import functools
import math
from collections.abc import Sequence

import numpy as np

from keras_transformer.text.bpe_dropout import LONGEST_CACHED
from keras_transformer.text.sentencepiece_model import SentencePieceModel

# Cached lattices of chunks: some 200 MB at most.
_CACHED = 2**15
# SentencePiece scores an unknown character by this much less than the worst piece.
_UNKNOWN_PENALTY = 10.0
_USER_DEFINED_PENALTY = 0.1

# For each position in a chunk, the pieces `(start, ids)` that may end there, and their cumulative
# shares except the last.
_Arcs = list[tuple[int, tuple[int, ...]]]
_Lattice = list[tuple[list[float], _Arcs]]


class UnigramSampling:
    """Draws segmentations of chunks of text, each with its probability to the power of `alpha`.

    The probabilities of all segmentations of a chunk's prefixes are summed from left to right; a
    segmentation is then drawn piece by piece from right to left. The `SentencePieceModel` must be
    of type "unigram". See [Subword Regularization](https://arxiv.org/abs/1804.10959).
    """

    def __init__(self, model: SentencePieceModel) -> None:
        self._model = model
        normal = [
            score
            for piece, score in model.scores.items()
            if piece not in model.user_defined and piece not in model.unused
        ]
        self._unknown_score = min(normal, default=0.0) - _UNKNOWN_PENALTY
        # User-defined symbols nearly always win, as in the library.
        highest = max(normal, default=0.0)
        bonus = {s: len(s) * highest - _USER_DEFINED_PENALTY for s in model.user_defined}
        self._scores = {
            piece: bonus.get(piece, score)
            for piece, score in model.scores.items()
            if piece not in model.unused
        }
        self._longest = max(map(len, self._scores), default=1)
        self._lattice = functools.lru_cache(_CACHED)(self._lattice_anew)

    def draw(
        self, chunks: Sequence[str], alpha: float, generator: np.random.Generator
    ) -> list[tuple[int, ...]]:
        """Draw a segmentation of each chunk, the ids of its pieces."""
        # A chunk has at most as many pieces as characters.
        draws = iter(generator.random(sum(map(len, chunks))).tolist())
        rows = []
        for chunk in chunks:
            is_long = len(chunk) > LONGEST_CACHED
            lattice = (self._lattice_anew if is_long else self._lattice)(chunk, alpha)
            stop, pieces = len(chunk), list[tuple[int, ...]]()
            while stop:
                shares, arcs = lattice[stop]
                stop, ids = arcs[bisect.bisect_right(shares, next(draws))]
                pieces.append(ids)
            rows.append(tuple(id_ for ids in reversed(pieces) for id_ in ids))
        return rows

    def _lattice_anew(self, chunk: str, alpha: float) -> _Lattice:
        lattice: _Lattice = [([], [])]
        total = [0.0]
        for stop in range(1, len(chunk) + 1):
            arcs: _Arcs = []
            weights: list[float] = []
            for start in range(max(0, stop - self._longest), stop):
                score, ids = self._piece(chunk[start:stop])
                if ids:
                    arcs.append((start, ids))
                    weights.append(total[start] + alpha * score)
            most = max(weights)
            weights = [math.exp(weight - most) for weight in weights]
            whole = math.fsum(weights)
            total.append(most + math.log(whole))
            shares: list[float] = []
            share = 0.0
            for weight in weights[:-1]:
                share += weight / whole
                shares.append(share)
            lattice.append((shares, arcs))
        return lattice

    def _piece(self, text: str) -> tuple[float, tuple[int, ...]]:
        """Score and ids of a piece; without ids if the vocabulary lacks it."""
        if text in self._scores:
            return self._scores[text], (self._model.ids[text],)
        if len(text) == 1:
            return self._unknown_score, self._model.spell(text)
        return 0.0, ()

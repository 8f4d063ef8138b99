"""Segmentations drawn by the probabilities of a unigram model."""

import bisect
import functools
import math

# Cached lattices of chunks: some 100 MB at most.
_CACHED = 2**15
# What SentencePiece takes off the least score of all pieces for a character that no piece holds.
_UNKNOWN_PENALTY = 10.0
_USER_DEFINED_PENALTY = 0.1


class UnigramSampling:
    """Draws segmentations of chunks of text, each with its probability to the power of `alpha`.

    The probabilities of all segmentations of a chunk's first characters are summed from left to
    right; a segmentation is then drawn piece by piece from right to left. The `SentencePieceModel`
    is of type "unigram". See [Subword Regularization](https://arxiv.org/abs/1804.10959).
    """

    def __init__(self, model):
        self._model = model
        normal = [
            score
            for piece, score in model.scores.items()
            if piece not in model.user_defined and piece not in model.unused
        ]
        self._unknown_score = min(normal, default=0.0) - _UNKNOWN_PENALTY
        # A user-defined symbol nearly always wins, as in the library.
        highest = max(normal, default=0.0)
        bonus = {s: len(s) * highest - _USER_DEFINED_PENALTY for s in model.user_defined}
        self._scores = {
            piece: bonus.get(piece, score)
            for piece, score in model.scores.items()
            if piece not in model.unused
        }
        self._longest = max(map(len, self._scores), default=1)
        self._lattice = functools.lru_cache(_CACHED)(self._lattice_anew)

    def draw(self, chunks, alpha, generator):
        """Draw a segmentation of each chunk, a tuple of ids."""
        # A chunk has no more pieces than characters.
        draws = iter(generator.random(sum(map(len, chunks))).tolist())
        rows = []
        for chunk in chunks:
            lattice = self._lattice(chunk, alpha)
            stop, pieces = len(chunk), []
            while stop:
                shares, arcs = lattice[stop]
                stop, ids = arcs[bisect.bisect_right(shares, next(draws))]
                pieces.append(ids)
            rows.append(tuple(id_ for ids in reversed(pieces) for id_ in ids))
        return rows

    def _lattice_anew(self, chunk, alpha):
        """What may end behind each character of a chunk: shares, and pieces as `(start, ids)`.

        The shares of the pieces are summed up, but for the last.
        """
        lattice, total = [None], [0.0]
        for stop in range(1, len(chunk) + 1):
            arcs, weights = [], []
            for start in range(max(0, stop - self._longest), stop):
                score, ids = self._piece(chunk[start:stop])
                if ids:
                    arcs.append((start, ids))
                    weights.append(total[start] + alpha * score)
            most = max(weights)
            weights = [math.exp(weight - most) for weight in weights]
            whole = math.fsum(weights)
            total.append(most + math.log(whole))
            shares, share = [], 0.0
            for weight in weights[:-1]:
                share += weight / whole
                shares.append(share)
            lattice.append((shares, arcs))
        return lattice

    def _piece(self, text):
        """Score and ids of a piece; no ids where there is none of this text."""
        if text in self._scores:
            return self._scores[text], (self._model.ids[text],)
        if len(text) == 1:
            return self._unknown_score, self._model.spell(text)
        return 0.0, ()

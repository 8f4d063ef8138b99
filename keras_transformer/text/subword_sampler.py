"""Random subword segmentation of sentences, reproducible on any machine for a given seed."""

import bisect
import functools
import itertools
import math
import re
import sys
from collections.abc import Container, Iterable, Sequence
from typing import TypeAlias

import numpy as np
import sentencepiece

from keras_transformer.argument_checks import check_non_negative_int, is_number
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.text.sentencepiece_model import SentencePieceModel

_CACHED_MERGES = 2**17  # number of chunks, which need at most about 50 MB
_CACHED_LATTICES = 2**15  # number of chunks, which need at most about 200 MB
# Longer chunks, such as text without spaces, rarely occur twice.
_LONGEST_CACHED = 20  # in characters
SPACE = "▁"  # represents a space in SentencePiece vocabularies
_Drawn: TypeAlias = tuple[str, tuple[int, ...]]  # a chunk of text and the ids of its pieces


class SubwordSampler:
    """Samples segmentations like `SentencePieceProcessor`, but with its own random numbers.

    With the same seed, version 0.2.3 of the library samples different pieces in each process. The
    library's processor is used only to normalize text and to look up pieces.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, model_bytes: bytes) -> None:
        model = SentencePieceModel.read(model_bytes)
        segmentations: dict[str, type[BpeDropout | UnigramSampling]] = {
            "bpe": BpeDropout,
            "unigram": UnigramSampling,
        }
        if model.model_type not in segmentations:
            raise UserInputError(
                "Subword sampling needs a SentencePiece model of type bpe or unigram. "
                f"Received: type {model.model_type}"
            )
        self._processor = processor
        self._model = model
        self._segmentation = segmentations[model.model_type](model)
        self._chunk = re.compile(_chunk_pattern(model.ids))
        symbols = sorted(model.user_defined, key=len, reverse=True)
        # BPE first splits off user-defined symbols, longest first.
        self._symbols = None
        if model.model_type == "bpe" and symbols:
            self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols))})")

    def sample(self, sentences: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Sample a segmentation of each sentence as ids; see `SentencePieceTokenizer.sample`."""
        rows = self._draw(sentences, alpha, seed)
        return [self._join(ids for _, ids in row) for row in rows]

    def sample_pieces(
        self, sentences: Sequence[str], *, alpha: float, seed: int
    ) -> list[list[str]]:
        """Sample the same segmentations as pieces; unknown pieces contain the original text."""
        return [self._pieces(row) for row in self._draw(sentences, alpha, seed)]

    def _draw(self, sentences: Sequence[str], alpha: float, seed: int) -> list[list[_Drawn]]:
        """Sample the ids of each chunk of each sentence."""
        if not is_number(alpha) or not 0 <= alpha <= 1:
            refuse("alpha", "be a number in [0, 1]", alpha)
        check_non_negative_int("seed", seed)
        generator = np.random.default_rng(seed)
        if not sentences:
            return []
        rows = [self._chunks(text) for text in self._processor.normalize(sentences)]
        chunks = [chunk for row in rows for chunk in row]
        drawn = iter(self._segmentation.draw(chunks, alpha, generator))
        return [[(chunk, next(drawn)) for chunk in row] for row in rows]

    def _chunks(self, text: str) -> list[str]:
        """Split a normalized sentence at positions that no piece can span."""
        if self._symbols is None:
            return self._chunk.findall(text)
        parts = enumerate(self._symbols.split(text))
        return [
            chunk
            for number, part in parts
            for chunk in ([part] if number % 2 else self._chunk.findall(part))
        ]

    def _pieces(self, row: Iterable[_Drawn]) -> list[str]:
        pieces: list[str] = []
        was_unknown = False
        for chunk, ids in row:
            place = 0  # start of the next piece within the chunk
            for id_ in ids:
                is_unknown = id_ == self._model.unknown_id and self._model.byte_ids is None
                piece = chunk[place] if is_unknown else self._processor.id_to_piece(id_)
                place += len(piece)
                if is_unknown and was_unknown:  # adjacent unknown characters form one piece
                    pieces[-1] += piece
                else:
                    pieces.append(piece)
                was_unknown = is_unknown
        return pieces

    def _join(self, chunks: Iterable[Iterable[int]]) -> list[int]:
        ids = list(itertools.chain.from_iterable(chunks))
        unknown = self._model.unknown_id
        if self._model.byte_ids is not None or unknown not in ids:
            return ids
        # Adjacent unknown characters form one unknown token.
        return [
            id_
            for number, id_ in enumerate(ids)
            if id_ != unknown or number == 0 or ids[number - 1] != unknown
        ]


def _chunk_pattern(pieces: Iterable[str]) -> str:
    """Return a regex for chunks of text that no piece can cross, usually a word and its space."""
    if not any(re.search(f"[^{SPACE}]{SPACE}", piece) for piece in pieces):
        return f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+"
    if not any(re.search(f"{SPACE}[^{SPACE}]", piece) for piece in pieces):
        return f"[^{SPACE}]*{SPACE}+|[^{SPACE}]+"
    return "(?s:.+)"


class BpeDropout:
    """Samples segmentations of text chunks with a `SentencePieceModel` of type "bpe".

    Merges are applied from best to worst, as in ordinary BPE. Each merge is dropped with
    probability `alpha`; its two parts then stay separate until one of them is merged with another
    part. See [BPE-Dropout](https://arxiv.org/abs/1910.13267).
    """

    def __init__(self, model: SentencePieceModel) -> None:
        self._model = model
        # SentencePiece first merges the pair with the highest score; the leftmost pair wins ties.
        self._ranks = {piece: -score for piece, score in model.scores.items()}
        self._merge = functools.lru_cache(_CACHED_MERGES)(self._merge_anew)

    def draw(
        self, chunks: Sequence[str], alpha: float, generator: np.random.Generator
    ) -> list[tuple[int, ...]]:
        """Sample a segmentation of each chunk and return the ids of its pieces."""
        # A chunk of n characters starts with n - 1 pairs; every merge adds at most two new pairs.
        most_turns = 3 * sum(map(len, chunks))
        drops = np.flatnonzero(generator.random(most_turns) < alpha).tolist()
        drops.append(sys.maxsize)
        turn, place, rows, merge = 0, 0, [], self._merge
        for chunk in chunks:
            if len(chunk) > _LONGEST_CACHED:
                end = bisect.bisect(drops, turn + 3 * len(chunk), place)
                turns, ids = self._merge_anew(chunk, {drop - turn for drop in drops[place:end]})
                place = bisect.bisect_left(drops, turn + turns, place)
            else:
                dropped: tuple[int, ...] = ()
                turns, ids = merge(chunk, dropped)
                while drops[place] < turn + turns:
                    dropped = (*dropped, drops[place] - turn)
                    place += 1
                    turns, ids = merge(chunk, dropped)
            turn += turns
            rows.append(ids)
        return rows

    def _merge_anew(self, chunk: str, dropped: Container[int]) -> tuple[int, tuple[int, ...]]:
        """Merge a chunk's characters except at `dropped` turns; return the turn count and ids."""
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


# SentencePiece scores unknown characters this much lower than the worst piece.
_UNKNOWN_PENALTY = 10.0
_USER_DEFINED_PENALTY = 0.1

# For each position in a chunk, the pieces `(start, ids)` that may end there, and their cumulative
# probabilities without the last one.
_Arcs = list[tuple[int, tuple[int, ...]]]
_Lattice = list[tuple[list[float], _Arcs]]


class UnigramSampling:
    """Samples segmentations of chunks in proportion to their probability to the power of `alpha`.

    First, the probabilities of all segmentations of each prefix are summed from left to right.
    Then, a segmentation is sampled piece by piece from right to left. The `SentencePieceModel` must
    be of type "unigram". See [Subword Regularization](https://arxiv.org/abs/1804.10959).
    """

    def __init__(self, model: SentencePieceModel) -> None:
        self._model = model
        normal = [
            score
            for piece, score in model.scores.items()
            if piece not in model.user_defined and piece not in model.unused
        ]
        self._unknown_score = min(normal, default=0.0) - _UNKNOWN_PENALTY
        # As in the library, user-defined symbols almost always win.
        highest = max(normal, default=0.0)
        bonus = {s: len(s) * highest - _USER_DEFINED_PENALTY for s in model.user_defined}
        self._scores = {
            piece: bonus.get(piece, score)
            for piece, score in model.scores.items()
            if piece not in model.unused
        }
        self._longest = max(map(len, self._scores), default=1)
        self._lattice = functools.lru_cache(_CACHED_LATTICES)(self._lattice_anew)

    def draw(
        self, chunks: Sequence[str], alpha: float, generator: np.random.Generator
    ) -> list[tuple[int, ...]]:
        """Sample a segmentation of each chunk and return the ids of its pieces."""
        # The number of pieces in a chunk never exceeds the number of characters.
        draws = iter(generator.random(sum(map(len, chunks))).tolist())
        rows = []
        for chunk in chunks:
            is_long = len(chunk) > _LONGEST_CACHED
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
            shares = itertools.accumulate(weight / whole for weight in weights[:-1])
            lattice.append((list(shares), arcs))
        return lattice

    def _piece(self, text: str) -> tuple[float, tuple[int, ...]]:
        """Return the score and ids of a piece; ids are empty if it is not in the vocabulary."""
        if text in self._scores:
            return self._scores[text], (self._model.ids[text],)
        if len(text) == 1:
            return self._unknown_score, self._model.spell(text)
        return 0.0, ()

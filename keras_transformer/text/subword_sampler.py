"""Random segmentations of sentences, reproducible from a seed on every machine."""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import TypeAlias

import numpy as np
import sentencepiece

from keras_transformer.argument_checks import check_non_negative_int, is_number
from keras_transformer.errors import UserInputError
from keras_transformer.text.bpe_dropout import BpeDropout
from keras_transformer.text.sentencepiece_model import SentencePieceModel
from keras_transformer.text.unigram_sampling import UnigramSampling

SEGMENTATIONS: dict[str, type[BpeDropout | UnigramSampling]] = {
    "bpe": BpeDropout,
    "unigram": UnigramSampling,
}
SPACE = "▁"  # a space in a SentencePiece vocabulary
_Drawn: TypeAlias = tuple[str, tuple[int, ...]]  # a chunk of text, and the ids of its pieces


class SubwordSampler:
    """Draws segmentations as `SentencePieceProcessor` does, but from our own random numbers.

    Version 0.2.3 of the library draws different pieces from the same seed in each process. Its
    processor normalizes the text.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, model_bytes: bytes) -> None:
        model = SentencePieceModel.read(model_bytes)
        if model.model_type not in SEGMENTATIONS:
            raise UserInputError(
                "Subword sampling needs a SentencePiece model of type bpe or unigram. "
                f"Received: one of type {model.model_type}"
            )
        self._processor = processor
        self._model = model
        self._segmentation = SEGMENTATIONS[model.model_type](model)
        self._chunk = re.compile(_chunk_pattern(model.ids))
        symbols = sorted(model.user_defined, key=len, reverse=True)
        # BPE first cuts out the symbols, the longest first.
        self._symbols = None
        if model.model_type == "bpe" and symbols:
            self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols))})")

    def sample(self, sentences: Sequence[str], *, alpha: float, seed: int) -> list[list[int]]:
        """Draw the ids of a segmentation of each sentence; see `SentencePieceTokenizer.sample`."""
        rows = self._draw(sentences, alpha, seed)
        return [self._join(ids for _, ids in row) for row in rows]

    def sample_pieces(
        self, sentences: Sequence[str], *, alpha: float, seed: int
    ) -> list[list[str]]:
        """Draw the same segmentations as pieces; an unknown one has the text's characters."""
        return [self._pieces(row) for row in self._draw(sentences, alpha, seed)]

    def _draw(self, sentences: Sequence[str], alpha: float, seed: int) -> list[list[_Drawn]]:
        """Draw the ids of each chunk of each sentence."""
        _check_alpha(alpha)
        check_non_negative_int("seed", seed)
        generator = np.random.default_rng(seed)
        if not sentences:
            return []
        rows = [self._chunks(text) for text in self._processor.normalize(sentences)]
        chunks = [chunk for row in rows for chunk in row]
        drawn = iter(self._segmentation.draw(chunks, alpha, generator))
        return [[(chunk, next(drawn)) for chunk in row] for row in rows]

    def _chunks(self, text: str) -> list[str]:
        """Split a normalized sentence where pieces never join it."""
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
            place = 0  # where the next piece begins in the chunk
            for id_ in ids:
                is_unknown = id_ == self._model.unknown_id and self._model.byte_ids is None
                piece = chunk[place] if is_unknown else self._processor.id_to_piece(id_)
                place += len(piece)
                if is_unknown and was_unknown:  # adjacent unknown characters are one piece
                    pieces[-1] += piece
                else:
                    pieces.append(piece)
                was_unknown = is_unknown
        return pieces

    def _join(self, chunks: Iterable[Iterable[int]]) -> list[int]:
        ids = list(chain.from_iterable(chunks))
        unknown = self._model.unknown_id
        if self._model.byte_ids is not None or unknown not in ids:
            return ids
        # Adjacent unknown characters are one unknown token.
        return [
            id_
            for number, id_ in enumerate(ids)
            if id_ != unknown or number == 0 or ids[number - 1] != unknown
        ]


def _chunk_pattern(pieces: Iterable[str]) -> str:
    """Pattern of the chunks that pieces never cross: usually a word with its space."""
    if not any(re.search(f"[^{SPACE}]{SPACE}", piece) for piece in pieces):
        return f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+"
    if not any(re.search(f"{SPACE}[^{SPACE}]", piece) for piece in pieces):
        return f"[^{SPACE}]*{SPACE}+|[^{SPACE}]+"
    return "(?s:.+)"


def _check_alpha(alpha: float) -> None:
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must be a number in [0, 1]. Received: alpha={alpha!r}")

"""Segmentations of sentences drawn at random, reproducible from a seed on every machine."""

import re

import numpy as np

from keras_transformer.argument_checks import check_non_negative_int, is_number
from keras_transformer.errors import UserInputError
from keras_transformer.text.bpe_dropout import BpeDropout
from keras_transformer.text.sentencepiece_model import SentencePieceModel
from keras_transformer.text.unigram_sampling import UnigramSampling

SEGMENTATIONS = {"bpe": BpeDropout, "unigram": UnigramSampling}
SPACE = "▁"  # how a SentencePiece vocabulary spells a space


class SubwordSampler:
    """Draws segmentations as `SentencePieceProcessor` does, but from our own random numbers.

    Version 0.2.3 of the library draws other pieces from the same seed in every process. Its
    processor normalizes the text.
    """

    def __init__(self, processor, model_bytes):
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
        # BPE cuts them out before all else; the longest wins.
        self._symbols = None
        if model.model_type == "bpe" and symbols:
            self._symbols = re.compile(f"({'|'.join(map(re.escape, symbols))})")

    def sample(self, sentences, *, alpha, seed):
        """Draw the ids of a segmentation of each sentence, as `SentencePieceTokenizer.sample`."""
        _check_alpha(alpha)
        check_non_negative_int("seed", seed)
        generator = np.random.default_rng(seed)
        if not sentences:
            return []
        rows = [self._chunks(text) for text in self._processor.normalize(sentences)]
        chunks = [chunk for row in rows for chunk in row]
        drawn = iter(self._segmentation.draw(chunks, alpha, generator))
        return [self._join([next(drawn) for _ in row]) for row in rows]

    def _chunks(self, text):
        """Parts of a normalized sentence that no piece joins."""
        if self._symbols is None:
            return self._chunk.findall(text)
        parts = enumerate(self._symbols.split(text))
        return [
            chunk
            for number, part in parts
            for chunk in ([part] if number % 2 else self._chunk.findall(part))
        ]

    def _join(self, chunks):
        ids = [id_ for chunk in chunks for id_ in chunk]
        unknown = self._model.unknown_id
        if self._model.byte_ids is not None or unknown not in ids:
            return ids
        # Neighboring unknown characters are one unknown token.
        return [
            id_
            for number, id_ in enumerate(ids)
            if id_ != unknown or number == 0 or ids[number - 1] != unknown
        ]


def _chunk_pattern(pieces):
    """Pattern of the chunks of text that pieces keep to: usually a word with its space."""
    if not any(re.search(f"[^{SPACE}]{SPACE}", piece) for piece in pieces):
        return f"{SPACE}+[^{SPACE}]*|[^{SPACE}]+"
    if not any(re.search(f"{SPACE}[^{SPACE}]", piece) for piece in pieces):
        return f"[^{SPACE}]*{SPACE}+|[^{SPACE}]+"
    return "(?s:.+)"


def _check_alpha(alpha):
    if not is_number(alpha) or not 0 <= alpha <= 1:
        raise ValueError(f"`alpha` must be a number in [0, 1]. Received: alpha={alpha!r}")

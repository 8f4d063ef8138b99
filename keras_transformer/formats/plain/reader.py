"""Reads the trial format."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from keras_transformer.formats.export_translator import ExportTranslator
from keras_transformer.formats.format import Reading
from keras_transformer.formats.registry import check_export
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentence_encoding import TargetTags


def check_runtime() -> None:
    """Keras is there."""


class PlainTranslator(ExportTranslator[list[int]]):
    """Translates with a model that `export_plain` wrote."""

    def __init__(self, path: Path, reading: Reading) -> None:
        super().__init__(reading.batch_size or 8, "refuse")
        check_export(path)
        import keras

        self._model = keras.models.load_model(path / "model.keras")
        self.tokenizer = SentencePieceTokenizer.load(path / "tokenizer.model")
        self._tags = TargetTags(self.tokenizer, reading.target_language)
        self._search = reading.search

    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: Literal["refuse", "cut"]
    ) -> tuple[list[list[int]], list[int]]:
        rows = self._tags.encode(name, sentences, 256, long_sentences)
        return rows, [len(row) for row in rows]

    def _run(self, encoded: Sequence[list[int]]) -> tuple[list[str], np.ndarray]:
        import keras

        from keras_transformer.decoding.sequence_generator import SequenceGenerator

        tokens = self.tokenizer.special_tokens
        generator = SequenceGenerator([self._model], tokens, self.tokenizer.vocabulary_size)
        rows = [[*row, tokens.eos] for row in encoded]
        ids = keras.utils.pad_sequences(rows, padding="post", value=tokens.pad)
        found, scores = generator.search(ids, options=self._search)
        best = keras.ops.convert_to_numpy(found)[:, 0]
        return self.tokenizer.decode(best.tolist()), keras.ops.convert_to_numpy(scores)[:, 0]


def open_export(path: Path, reading: Reading) -> PlainTranslator:
    """Return the translator of an export."""
    return PlainTranslator(path, reading)

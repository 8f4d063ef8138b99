"""Writes the inputs of the rows. All engines read the same file."""

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from benchmarks.peers.rows import Row
from benchmarks.peers.workers.search_inputs import BOS, EOS, FIRST_TOKEN, PAD
from keras_transformer.errors import UserInputError

SEED = 1
_TRAINED_ON = 20_000  # sentence pairs for training the vocabulary


class Inputs:
    """Input files for rows.

    Args:
        directory: existing output directory.
        data: folder with the datasets, including `multi30k/tok`; None if there is none.
    """

    def __init__(self, directory: Path, data: Path | None) -> None:
        self._directory = directory
        self._texts = None if data is None else data / "multi30k" / "tok"

    def tokenizer(self, row: Row) -> Path | None:
        """Return the vocabulary for a row of real sentences, which is trained on first use."""
        if row.corpus == "random":
            return None
        path = self._directory / f"vocabulary_{row.vocabulary_size}.model"
        if not path.exists():
            from keras_transformer.text import SentencePieceTokenizer

            lines = [*self._lines("train.en", _TRAINED_ON), *self._lines("train.de", _TRAINED_ON)]
            SentencePieceTokenizer.train(lines, path, vocabulary_size=row.vocabulary_size)
        return path

    def of(self, row: Row) -> Path:
        """Return the input file of a row.

        Raises:
            UserInputError: the dataset of real sentences is missing.
        """
        path = self._directory / f"{row.name}.npz"
        if not path.exists():
            np.savez(path, allow_pickle=False, **self._arrays(row))
        return path

    def _arrays(self, row: Row) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(SEED)
        if row.task == "training":
            return _training_arrays(row, generator)
        if row.corpus == "multi30k":
            return self._real_arrays(row)
        size = row.num_sentences, row.length - 1  # and EOS
        return {
            "tokens": generator.integers(FIRST_TOKEN, row.vocabulary_size, size, dtype="int32"),
            "num_tokens": np.full(row.num_sentences, row.length - 1, "int32"),
            "output_lengths": np.full(row.num_sentences, row.length, "int32"),
        }

    def _real_arrays(self, row: Row) -> dict[str, np.ndarray]:
        """Return sentences sorted by number of tokens, so batches contain similar lengths."""
        from keras_transformer.text import SentencePieceTokenizer

        tokenizer = SentencePieceTokenizer.load(self.tokenizer(row) or "")
        sources, targets = (
            tokenizer.encode(self._lines(f"test_2016_flickr.{language}", row.sentences))
            for language in ("en", "de")
        )
        pairs = sorted(zip(sources, targets, strict=True), key=lambda pair: len(pair[0]))
        tokens = np.full((len(pairs), max(len(source) for source, _ in pairs)), PAD, "int32")
        for array, (source, _) in zip(tokens, pairs, strict=True):
            array[: len(source)] = source
        return {
            "tokens": tokens,
            "num_tokens": np.array([len(source) for source, _ in pairs], "int32"),
            "output_lengths": np.array([len(target) for _, target in pairs], "int32"),
        }

    def _lines(self, name: str, number: int) -> list[str]:
        path = None if self._texts is None else self._texts / f"{name}.gz"
        if path is None or not path.is_file():
            raise UserInputError(
                "Real sentences need multi30k/tok in the folder that KERAS_TRANSFORMER_TEST_DATA "
                f"names. Missing: {name}.gz"
            )
        return list(_first_lines(path, number))


def _first_lines(path: Path, number: int) -> Iterator[str]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line, _ in zip(lines, range(number), strict=False):
            yield line.rstrip("\n")


def _training_arrays(row: Row, generator: np.random.Generator) -> dict[str, np.ndarray]:
    size = row.batch_size, row.length
    source_ids, labels = generator.integers(
        FIRST_TOKEN, row.vocabulary_size, (2, *size), dtype="int32"
    )
    source_ids[:, -1] = labels[:, -1] = EOS
    target_ids = np.roll(labels, 1, axis=1)
    target_ids[:, 0] = BOS
    return {"source_ids": source_ids, "target_ids": target_ids, "labels": labels}

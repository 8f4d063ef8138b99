"""The text and the vocabulary for both programs."""

import dataclasses
import itertools
import json
from pathlib import Path
from typing import Any

from keras_transformer.data import find_text, read_parallel_text
from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum, write_json, write_text
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.translation_training import TranslationSettings

SOURCE, TARGET = "en", "de"
PREPARED = "prepared.json"


@dataclasses.dataclass(frozen=True)
class PreparedText:
    """The files for both programs.

    Args:
        directory: directory that contains `train.en`, `train.de`, `dev.en` and `dev.de` with one
            sentence per line, `tokenizer.model`, and its pieces in `vocabulary.txt`.
    """

    directory: Path

    def path(self, part: str, language: str) -> Path:
        """Return the file for `"train"` or `"dev"` in one language."""
        return self.directory / f"{part}.{language}"

    def lines(self, part: str, language: str) -> list[str]:
        """Return the sentences in a file."""
        return self.path(part, language).read_text(encoding="utf-8").removesuffix("\n").split("\n")

    @property
    def tokenizer(self) -> Path:
        """The SentencePiece model."""
        return self.directory / "tokenizer.model"

    @property
    def vocabulary(self) -> Path:
        """The pieces of the model, in JoeyNMT's format."""
        return self.directory / "vocabulary.txt"


def prepare_text(
    data: Path, directory: Path, settings: TranslationSettings, most_pairs: int | None = None
) -> PreparedText:
    """Write the text and its vocabulary, unless already done.

    Args:
        data: folder with `train.en`, `train.de`, `dev.en` and `dev.de`, plain or `.gz`.
        directory: output directory.
        settings: settings with the size and type of the vocabulary.
        most_pairs: maximum number of training pairs, for a trial; None for all.

    Raises:
        UserInputError: a file is missing, or `directory` was created from other data or settings.
    """
    prepared = PreparedText(directory)
    origin = {
        "files": {name: checksum(path) for name, path in _text_files(data).items()},
        "vocabulary": _vocabulary_of(settings),
        "most_pairs": most_pairs,
    }
    record_path = directory / PREPARED
    if not record_path.is_file():
        directory.mkdir(parents=True, exist_ok=True)
        counts = _write(prepared, _text_files(data), settings, most_pairs)
        write_json(record_path, {"origin": origin, **counts})
    elif json.loads(record_path.read_text(encoding="utf-8"))["origin"] != origin:
        raise UserInputError(
            f"--work must be a new folder for other data. Received: {directory.parent}, "
            "which contains other data, or another vocabulary"
        )
    return prepared


def _vocabulary_of(settings: TranslationSettings) -> dict[str, Any]:
    """Return the arguments of `SentencePieceTokenizer.train`."""
    return {
        "vocabulary_size": settings.vocabulary_size,
        "model_type": settings.vocabulary_type,
        "byte_fallback": settings.byte_fallback,
        "normalization": settings.normalization,
    }


def _text_files(data: Path) -> dict[str, Path]:
    """Return the files in a folder by their names without `.gz`."""
    stems = [f"{part}.{language}" for part in ("train", "dev") for language in (SOURCE, TARGET)]
    return {stem: find_text(data, stem) for stem in stems}


def _write(
    prepared: PreparedText,
    paths: dict[str, Path],
    settings: TranslationSettings,
    most_pairs: int | None,
) -> dict[str, int]:
    """Write the text and its vocabulary. Return the numbers of pairs."""
    train, dev = (
        _pairs(paths[f"{part}.{SOURCE}"], paths[f"{part}.{TARGET}"]) for part in ("train", "dev")
    )
    train = train[:most_pairs]
    for part, pairs in (("train", train), ("dev", dev)):
        for language, side in zip((SOURCE, TARGET), zip(*pairs, strict=True), strict=True):
            write_text(prepared.path(part, language), "\n".join(side) + "\n")
    tokenizer = SentencePieceTokenizer.train(
        itertools.chain.from_iterable(train),
        prepared.tokenizer,
        **_vocabulary_of(settings),
    )
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    write_text(prepared.vocabulary, "\n".join(pieces) + "\n")
    return {"train_pairs": len(train), "dev_pairs": len(dev)}


def _pairs(sources: Path, targets: Path) -> list[tuple[str, str]]:
    """Return the pairs in two files, except pairs with an empty side."""
    sides = (map(_one_line, side) for side in read_parallel_text(sources, targets))
    return [pair for pair in zip(*sides, strict=True) if all(pair)]


def _one_line(text: str) -> str:
    """Return a line that all programs read as one. Some also break lines at U+2028, for example."""
    return " ".join(text.splitlines()).strip()

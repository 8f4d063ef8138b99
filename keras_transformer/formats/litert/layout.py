"""The layout of a LiteRT export on disk, shared by its writer and its reader.

It does not need Keras or TensorFlow, because the reader runs without them.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.json_files import read_json, to_record
from keras_transformer.files.whole_files import write_json
from keras_transformer.formats.registry import check_export
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.tokenizer_files import SOURCE_TOKENIZER, TOKENIZER, save_tokenizers
from keras_transformer.types import PathLike

LITERT_FORMAT = "keras_transformer LiteRT model"
FORMAT_VERSION = 1
SIDES = ("source", "target")
TRANSLATE_IDS = "translate_ids"  # the signature that a translator calls
# The list of pieces for a tokenizer whose ids are not SentencePiece's own.
_PIECES_OF = {TOKENIZER: "vocabulary.json", SOURCE_TOKENIZER: "source_vocabulary.json"}
_ADVICE = "Copy the export again."
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\\\0]+$")]  # in the directory itself


class _Vocabulary(msgspec.Struct):
    tokenizer: FileName


class _Limits(msgspec.Struct):
    max_source_length: Annotated[int, msgspec.Meta(ge=2)]


class _Record(msgspec.Struct):
    """The part of translation.json that a reader needs."""

    format_version: Annotated[int, msgspec.Meta(ge=1)]
    limits: _Limits
    source: _Vocabulary
    target: _Vocabulary


class LiteRTDirectory:
    """The files of a LiteRT export; the only place that knows their names.

    ```
    model.tflite            every signature, with one set of weights
    tokenizer.model         the SentencePiece model
    source_tokenizer.model  the source's model, if its vocabulary is separate
    vocabulary.json         the pieces in the order of their ids, if these are not SentencePiece's
    source_vocabulary.json  those of the source's model
    translation.json        special ids, vocabulary sizes, limits, search options
    SHA256SUMS              checksums of all files
    ```

    Args:
        path: the directory.
    """

    def __init__(self, path: PathLike) -> None:
        self.path = Path(path)
        self.model_path = self.path / "model.tflite"
        self.settings_path = self.path / "translation.json"

    def write(
        self,
        model_bytes: bytes,
        source_tokenizer: SentencePieceTokenizer,
        tokenizer: SentencePieceTokenizer,
        settings: Mapping[str, Any],
    ) -> None:
        """Write all files; `settings` are additional entries in `translation.json`."""
        self.model_path.write_bytes(model_bytes)
        names = save_tokenizers(self.path, source_tokenizer, tokenizer)
        sides = dict(zip(SIDES, (source_tokenizer, tokenizer), strict=True))
        lists = {side: self._write_pieces(sides[side], names[side]) for side in SIDES}
        record = {
            "format": LITERT_FORMAT,
            "format_version": FORMAT_VERSION,
            **settings,
            **{side: _vocabulary(sides[side], names[side], lists[side]) for side in SIDES},
        }
        write_json(self.settings_path, record)

    def read_settings(self) -> dict[str, Any]:
        """Return the content of `translation.json`, after checking it and all files."""
        record = self._read_record()
        check_export(self.path)
        return record

    def load_tokenizers(
        self, settings: Mapping[str, Any]
    ) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
        """Load the tokenizers of source and target; one object if they are shared."""
        names = {side: settings[side]["tokenizer"] for side in SIDES}
        tokenizer = SentencePieceTokenizer.load(self.path / names["target"])
        if names["source"] == names["target"]:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(self.path / names["source"]), tokenizer

    def _write_pieces(self, tokenizer: SentencePieceTokenizer, name: str) -> str | None:
        """Write the pieces of a tokenizer with its own ids; return the file's name, or None."""
        if tokenizer.vocabulary is None:
            return None
        write_json(self.path / _PIECES_OF[name], tokenizer.vocabulary.pieces)
        return _PIECES_OF[name]

    def _read_record(self) -> dict[str, Any]:
        """Return the content of `translation.json`, which has everything that a reader needs."""
        path = self.settings_path
        if not path.exists():
            raise UserInputError(
                f"{self.path} holds no LiteRT export: {path.name} is missing. Make one with "
                f"`keras-transformer export litert RUN {self.path}`."
            )
        record = read_json(path, _ADVICE)
        if not isinstance(record, dict) or record.get("format") != LITERT_FORMAT:
            raise UserInputError(f"{path} does not belong to a LiteRT export.")
        version = record.get("format_version")
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise UserInputError(
                f"{self.path} has format version {version}; this version of keras_transformer "
                f"reads {FORMAT_VERSION} and older. Update it."
            )
        to_record(path, record, _Record, _ADVICE)
        return record


def _vocabulary(
    tokenizer: SentencePieceTokenizer, name: str, list_name: str | None
) -> dict[str, Any]:
    return {
        "tokenizer": name,
        "vocabulary": list_name,  # of the pieces; None: the ids are SentencePiece's own
        "vocabulary_size": tokenizer.vocabulary_size,
        "special_tokens": dataclasses.asdict(tokenizer.special_tokens),
        "right_to_left": tokenizer.right_to_left,
    }

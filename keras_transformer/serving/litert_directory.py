"""A LiteRT export on disk: the layout that its writer and its reader share.

It needs neither Keras nor TensorFlow: the reader runs where neither is installed.
"""

import dataclasses
from pathlib import Path
from typing import Annotated

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.files.checksum_list import check_files
from keras_transformer.files.json_files import read_json, to_record
from keras_transformer.files.whole_files import checksum, write_json
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.tokenizer_files import save_tokenizers

LITERT_FORMAT = "keras_transformer LiteRT model"
FORMAT_VERSION = 1
SIDES = ("source", "target")
TRANSLATE_IDS = "translate_ids"  # the signature that a translator calls
_ADVICE = "Copy the export anew."
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\\\0]+$")]  # of the directory itself


class _Vocabulary(msgspec.Struct):
    tokenizer: FileName


class _Limits(msgspec.Struct):
    max_source_length: Annotated[int, msgspec.Meta(ge=2)]


class _Record(msgspec.Struct):
    """What a reader needs of translation.json."""

    format_version: Annotated[int, msgspec.Meta(ge=1)]
    checksums: dict[FileName, str]
    limits: _Limits
    source: _Vocabulary
    target: _Vocabulary


class LiteRTDirectory:
    """The files of a LiteRT export, and the only place that knows their names.

    ```
    model.tflite            every signature, with one set of weights
    tokenizer.model         the SentencePiece model
    source_tokenizer.model  that of the source, where it has a vocabulary of its own
    translation.json        special ids, vocabulary sizes, limits, search options, checksums
    SHA256SUMS              checksums of all files, that one too
    ```

    Args:
        path: the directory.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.model_path = self.path / "model.tflite"
        self.settings_path = self.path / "translation.json"

    def write(self, model_bytes, source_tokenizer, tokenizer, settings):
        """Write all files; `settings` is what `translation.json` has besides."""
        self.model_path.write_bytes(model_bytes)
        names = save_tokenizers(self.path, source_tokenizer, tokenizer)
        files = {self.model_path.name, *names.values()}
        sides = dict(zip(SIDES, (source_tokenizer, tokenizer), strict=True))
        record = {
            "format": LITERT_FORMAT,
            "format_version": FORMAT_VERSION,
            **settings,
            **{side: _vocabulary(sides[side], names[side]) for side in SIDES},
            "checksums": {name: checksum(self.path / name) for name in sorted(files)},
        }
        write_json(self.settings_path, record)

    def read_settings(self):
        """The content of `translation.json`, after a look at it and at all files."""
        record = self._read_record()
        check_files(self.path, [self.settings_path.name])
        for name, expected in record["checksums"].items():
            path = self.path / name
            try:
                found = checksum(path)
            except OSError as error:
                raise UserInputError(f"Cannot read {path}: {error.strerror}.") from error
            if found != expected:
                raise UserInputError(f"{path} is damaged: its checksum is wrong. {_ADVICE}")
        return record

    def load_tokenizers(self, settings):
        """The tokenizers of source and target, one object where they share it."""
        names = {side: settings[side]["tokenizer"] for side in SIDES}
        tokenizer = SentencePieceTokenizer.load(self.path / names["target"])
        if names["source"] == names["target"]:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(self.path / names["source"]), tokenizer

    def _read_record(self):
        """The content of `translation.json`, which has all that a reader needs."""
        path = self.settings_path
        if not path.exists():
            raise UserInputError(
                f"{self.path} holds no LiteRT export: there is no {path.name}. Make one with "
                f"`keras-transformer export litert RUN {self.path}`."
            )
        record = read_json(path, _ADVICE)
        if not isinstance(record, dict) or record.get("format") != LITERT_FORMAT:
            raise UserInputError(f"{path} is not of a LiteRT export.")
        version = record.get("format_version")
        if isinstance(version, int) and version > FORMAT_VERSION:
            raise UserInputError(
                f"{self.path} has format version {version}; this version of keras_transformer "
                f"reads {FORMAT_VERSION} and older. Update it."
            )
        found = to_record(path, record, _Record, _ADVICE)
        needed = {self.model_path.name, found.source.tokenizer, found.target.tokenizer}
        for name in sorted(needed - found.checksums.keys()):
            raise UserInputError(f"{path} is damaged: it has no checksum of {name}. {_ADVICE}")
        return record


def _vocabulary(tokenizer, name):
    return {
        "tokenizer": name,
        "vocabulary_size": tokenizer.vocabulary_size,
        "special_tokens": dataclasses.asdict(tokenizer.special_tokens),
    }

"""A LiteRT export on disk: the layout that its writer and its reader share.

It needs neither Keras nor TensorFlow: the reader runs where neither is installed.
"""

import dataclasses
import json
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import checksum, write_json
from keras_transformer.text import SentencePieceTokenizer

LITERT_FORMAT = "keras_transformer LiteRT model"
FORMAT_VERSION = 1
SIDES = ("source", "target")
TRANSLATE_IDS = "translate_ids"  # the signature that a translator calls


class LiteRTDirectory:
    """The files of a LiteRT export, and the only place that knows their names.

    ```
    model.tflite            every signature, with one set of weights
    tokenizer.model         the SentencePiece model
    source_tokenizer.model  that of the source, where it has a vocabulary of its own
    translation.json        special ids, vocabulary sizes, limits, search options, checksums
    ```

    Args:
        path: the directory.
    """

    def __init__(self, path):
        self.path = Path(path)
        self.model_path = self.path / "model.tflite"
        self.tokenizer_path = self.path / "tokenizer.model"
        self.source_tokenizer_path = self.path / "source_tokenizer.model"
        self.settings_path = self.path / "translation.json"

    def write(self, model_bytes, source_tokenizer, tokenizer, settings):
        """Write all files.

        Args:
            model_bytes: the LiteRT model.
            source_tokenizer, tokenizer: `SentencePieceTokenizer`s, one object twice where they
                share it.
            settings: JSON-compatible dict that `translation.json` has besides.
        """
        self.model_path.write_bytes(model_bytes)
        tokenizer.save(self.tokenizer_path)
        names = {"source": self.tokenizer_path.name, "target": self.tokenizer_path.name}
        if source_tokenizer is not tokenizer:
            source_tokenizer.save(self.source_tokenizer_path)
            names["source"] = self.source_tokenizer_path.name
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
        """The content of `translation.json`, after a look at it and at all files.

        Raises:
            UserInputError: the directory holds no such export, one of a newer format, or files that
                are missing or damaged.
        """
        record = self._read_record()
        for name, expected in record["checksums"].items():
            path = self.path / name
            try:
                found = checksum(path)
            except OSError as error:
                raise UserInputError(f"Cannot read {path}: {error.strerror}.") from error
            if found != expected:
                raise UserInputError(f"{path} is damaged: copy the export anew.")
        return record

    def load_tokenizers(self, settings):
        """The source's and the target's `SentencePieceTokenizer`, one object where they share it.

        Args:
            settings: what `read_settings` returned, which names their files.

        Raises:
            UserInputError: a file is missing or damaged.
        """
        names = {side: settings[side]["tokenizer"] for side in SIDES}
        tokenizer = SentencePieceTokenizer.load(self.path / names["target"])
        if names["source"] == names["target"]:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(self.path / names["source"]), tokenizer

    def _read_record(self):
        """The content of `translation.json`, which has all that a reader needs."""
        try:
            record = json.loads(self.settings_path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise UserInputError(
                f"{self.path} holds no LiteRT export: there is no {self.settings_path.name}. Make "
                f"one with `keras-transformer export litert RUN {self.path}`."
            ) from None
        except OSError as error:
            raise UserInputError(f"Cannot read {self.settings_path}: {error.strerror}.") from error
        except (ValueError, RecursionError) as error:
            raise UserInputError(
                f"{self.settings_path} is damaged: it is not JSON. Copy the export anew."
            ) from error
        if not isinstance(record, dict) or record.get("format") != LITERT_FORMAT:
            raise UserInputError(f"{self.settings_path} is not of a LiteRT export.")
        self._check_version(record)
        self._check_entries(record)
        return record

    def _check_version(self, record):
        """Require a format version that this code reads; what else a newer one has is unknown."""
        version = record.get("format_version")
        self._check("format_version", _is_int(version, 1))
        if version > FORMAT_VERSION:
            raise UserInputError(
                f"{self.path} has format version {version}; this version of keras_transformer "
                f"reads {FORMAT_VERSION} and older. Update it."
            )

    def _check_entries(self, record):
        checksums, limits = record.get("checksums"), record.get("limits")
        self._check(
            "checksums",
            isinstance(checksums, dict)
            and self.model_path.name in checksums
            and all(map(_is_file_name, checksums)),
        )
        for side in SIDES:
            name = record[side].get("tokenizer") if isinstance(record.get(side), dict) else None
            self._check(side, isinstance(name, str) and name in checksums)
        is_dict = isinstance(limits, dict)
        self._check("limits", is_dict and _is_int(limits.get("max_source_length"), 2))

    def _check(self, entry, holds):
        if not holds:
            raise UserInputError(
                f"{self.settings_path} is damaged: `{entry}` is missing or wrong. Copy the export "
                "anew."
            )


def _is_int(value, least):
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_file_name(name):
    """Whether a string names a file of the directory itself."""
    return name == Path(name).name and "\0" not in name


def _vocabulary(tokenizer, name):
    return {
        "tokenizer": name,
        "vocabulary_size": tokenizer.vocabulary_size,
        "special_tokens": dataclasses.asdict(tokenizer.special_tokens),
    }

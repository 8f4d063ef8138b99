"""The on-disk layout of LiteRT exports and a translator that runs them.

This module does not require Keras or TensorFlow.
"""

import contextlib
import dataclasses
import functools
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from keras_transformer.files import write_json
from keras_transformer.formats.export_translator import (
    ExportTranslator,
    IdsGenerator,
    IdsTranslator,
    cpu_threads,
    opening,
    padded_ids,
    source_and_target,
)
from keras_transformer.formats.format import (
    ALIGN_IDS,
    SIDES,
    TRANSLATE_IDS,
    TRANSLATE_IDS_WITH_TERMS,
    TRANSLATE_ONE,
    Reading,
)
from keras_transformer.formats.litert import LITERT
from keras_transformer.formats.registry import FORMAT_VERSION, read_export
from keras_transformer.formats.sentence_translator import Rows
from keras_transformer.installation import LOG_LEVEL, requiring, without_logs
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.sentence_encoding import TargetTags
from keras_transformer.text.sentencepiece_tokenizer import (
    SOURCE_TOKENIZER,
    TOKENIZER,
    save_tokenizers,
)
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter

LITERT_FORMAT = "keras_transformer LiteRT model"
# Piece lists for tokenizers whose ids differ from SentencePiece's ids.
_PIECES_OF = {TOKENIZER: "vocabulary.json", SOURCE_TOKENIZER: "source_vocabulary.json"}
FileName = Annotated[str, msgspec.Meta(pattern=r"^[^/\\\0]+$")]  # directly in the directory


class _Vocabulary(msgspec.Struct):
    tokenizer: FileName


class _Limits(msgspec.Struct):
    max_source_length: Annotated[int, msgspec.Meta(ge=2)]
    extra_length: Annotated[int, msgspec.Meta(ge=0)]


class _Record(msgspec.Struct):
    """The fields of translation.json that the reader needs."""

    format_version: Annotated[int, msgspec.Meta(ge=1)]
    limits: _Limits
    source: _Vocabulary
    target: _Vocabulary


class LiteRTDirectory:
    """The files of a LiteRT export. This class defines their names.

    ```
    model.tflite            all signatures, sharing one set of weights
    tokenizer.model         the SentencePiece model
    source_tokenizer.model  the source's SentencePiece model, if the source has its own vocabulary
    vocabulary.json         the pieces in id order, if the ids differ from SentencePiece's
    source_vocabulary.json  the same for the source
    translation.json        special ids, vocabulary sizes, limits, search options
    SHA256SUMS              checksums of all files
    ```

    Args:
        path: directory of the export.
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
        """Write all files. `settings` are additional entries for `translation.json`."""
        self.model_path.write_bytes(model_bytes)
        names = save_tokenizers(self.path, source_tokenizer, tokenizer)
        sides = dict(zip(SIDES, (source_tokenizer, tokenizer), strict=True))
        record = {
            "format": LITERT_FORMAT,
            "format_version": FORMAT_VERSION,
            **settings,
            **{side: self._write_vocabulary(sides[side], names[side]) for side in SIDES},
        }
        write_json(self.settings_path, record)

    def read_settings(self) -> dict[str, Any]:
        """Return the contents of `translation.json` after checking all files."""
        name = self.settings_path.name
        return read_export(self.path, name, LITERT, ("format", LITERT_FORMAT), _Record)[0]

    def load_tokenizers(
        self, settings: Mapping[str, Any]
    ) -> tuple[SentencePieceTokenizer, SentencePieceTokenizer]:
        """Load the source and target tokenizers. A shared tokenizer is returned as one object."""
        names = {side: settings[side]["tokenizer"] for side in SIDES}
        tokenizer = SentencePieceTokenizer.load(self.path / names["target"])
        if names["source"] == names["target"]:
            return tokenizer, tokenizer
        return SentencePieceTokenizer.load(self.path / names["source"]), tokenizer

    def _write_vocabulary(self, tokenizer: SentencePieceTokenizer, name: str) -> dict[str, Any]:
        """Write a tokenizer's pieces if it has its own ids. Return its entries for the settings."""
        list_name = None  # uses SentencePiece's ids
        if tokenizer.vocabulary is not None:
            list_name = _PIECES_OF[name]
            write_json(self.path / list_name, tokenizer.vocabulary.pieces)
        return {
            "tokenizer": name,
            "vocabulary": list_name,
            "vocabulary_size": tokenizer.vocabulary_size,
            "special_tokens": dataclasses.asdict(tokenizer.special_tokens),
            "right_to_left": tokenizer.right_to_left,
        }


class LiteRTTranslator(ExportTranslator[list[int]]):
    """Translates lists of sentences with a model exported by `export_litert`.

    Requires `ai-edge-litert` and `sentencepiece` (the `litert` extra). Sentences are sorted by
    length, translated in batches and returned in their original order. The translation of an empty
    sentence is empty. Unpaired surrogates are replaced with U+FFFD.

    Threads may share a translator but run one at a time. The `settings` attribute contains the
    values in `translation.json`; `directory` is the path of the export; `source_tokenizer` and
    `tokenizer` are the two tokenizers.

    Args:
        directory: directory written by `export_litert`.
        num_threads: number of compute threads; defaults to the number of cores, up to 4.
        batch_size: maximum number of sentences in a batch.
        long_sentences: how to handle sentences that are too long: `"refuse"` raises
            `SentenceTooLong`; `"cut"` drops the end and issues a `LongSentenceWarning`.
        target_language: target language code for multilingual models, as in `Translator`.
        source_language: language whose rules divide the text of documents with markup.

    Raises:
        ValueError: an argument is invalid.
        UserInputError: `ai-edge-litert` is not installed; or the export does not exist, uses a
            newer format, has missing or damaged files or cannot be opened by LiteRT.

    Example:

    ```python
    translator = LiteRTTranslator("exports/en_de_litert")
    translator.translate(["A small house.", ""])  # ["Ein kleines Haus.", ""]
    ```

    Reference:
        LiteRT interpreter: https://ai.google.dev/edge/litert/guide/inference
    """

    def __init__(
        self,
        directory: PathLike,
        *,
        num_threads: int | None = None,
        batch_size: int = 8,
        long_sentences: Literal["refuse", "cut"] = "cut",
        target_language: str | None = None,
        source_language: str = "en",
    ) -> None:
        super().__init__(batch_size, long_sentences, source_language)
        num_threads = cpu_threads(num_threads)
        interpreter = interpreter_class()
        self.directory = directory
        files = LiteRTDirectory(directory)
        self.settings = files.read_settings()
        self.source_tokenizer, self.tokenizer = files.load_tokenizers(self.settings)
        self._target_language = target_language
        self._tags = TargetTags(self.source_tokenizer, target_language)
        with opening(f"LiteRT cannot open {files.model_path}", RuntimeError, ValueError):
            self._model = interpreter(model_path=str(files.model_path), num_threads=num_threads)
            runner = self._model.get_signature_runner(TRANSLATE_IDS)
        self._runners: dict[str, Callable[..., dict[str, np.ndarray]]] = {TRANSLATE_IDS: runner}
        self._lock = threading.Lock()
        self._first: Callable[[], contextlib.AbstractContextManager[None]] = without_logs

    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: Literal["refuse", "cut"]
    ) -> tuple[list[list[int]], list[int]]:
        most = self.settings["limits"]["max_source_length"]
        rows = self._tags.encode(name, sentences, most, long_sentences)
        return rows, [len(row) for row in rows]

    @property
    def _place(self) -> PathLike:
        return self.directory

    @functools.cached_property
    def _signature_names(self) -> Collection[str]:
        return self._model.get_signature_list().keys()

    @functools.cached_property
    def _by_ids(self) -> IdsTranslator:
        limits = self.settings["limits"]
        return IdsTranslator(
            self._run_ids,
            self.source_tokenizer,
            self.tokenizer,
            SearchOptions(
                max_source_length=limits["max_source_length"], extra_length=limits["extra_length"]
            ),
            batch_size=self.batch_size,
            long_sentences=self.long_sentences,
            source_language=self.source_language,
            target_language=self._target_language,
            align=self._align_ids,
        )

    def _run(self, encoded: Sequence[list[int]]) -> tuple[list[str], np.ndarray]:
        ids, scores = self._run_ids(encoded, None)
        return self.tokenizer.decode(ids), scores

    def _run_ids(self, rows: Rows, terms: np.ndarray | None) -> tuple[Rows, np.ndarray]:
        input_ids, lengths = padded_ids(rows)
        inputs = {"input_ids": input_ids, "input_lengths": lengths}
        if terms is None:
            is_one = len(rows) == 1 and TRANSLATE_ONE in self._signature_names
            outputs = self._call(TRANSLATE_ONE if is_one else TRANSLATE_IDS, **inputs)
        else:
            outputs = self._call(TRANSLATE_IDS_WITH_TERMS, **inputs, terms=terms)
        with self._running():
            found = zip(outputs["output_ids"], outputs["output_lengths"], strict=True)
            return [row[:length].tolist() for row, length in found], outputs["scores"]

    @functools.cached_property
    def ids_generator(self) -> IdsGenerator:
        """The search of the export, on rows of ids."""
        return IdsGenerator(self._run_ids, None, self.batch_size)

    def _align_ids(self, source_rows: Rows, target_rows: Rows) -> np.ndarray:
        outputs = self._call(ALIGN_IDS, **source_and_target(source_rows, target_rows))
        with self._running():
            return outputs["alignments"]

    def _call(self, signature: str, **inputs: np.ndarray) -> dict[str, np.ndarray]:
        with self._running(), self._lock, self._first():
            self._first = contextlib.nullcontext  # only the first call logs the delegate
            if signature not in self._runners:
                self._runners[signature] = self._model.get_signature_runner(signature)
            return self._runners[signature](**inputs)

    def _running(self) -> contextlib.AbstractContextManager[None]:
        errors = RuntimeError, ValueError, TypeError, KeyError  # if the outputs differ
        return opening(f"LiteRT cannot run the model of {self.directory}", *errors)


def open_export(path: Path, reading: Reading) -> LiteRTTranslator:
    """Return an export's translator for `translate --engine`."""
    os.environ.setdefault(LOG_LEVEL, "2")
    return LiteRTTranslator(
        path, **reading.for_whole_sentences, target_language=reading.target_language
    )


def interpreter_class() -> type["Interpreter"]:
    """Return the interpreter class. Raise a UserInputError if LiteRT is not installed."""
    with requiring("litert", "LiteRT is not installed"):
        from ai_edge_litert.interpreter import Interpreter
    return Interpreter

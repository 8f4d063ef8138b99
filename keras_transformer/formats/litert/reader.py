"""Strings in, strings out, with a LiteRT export: without TensorFlow or Keras."""

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from keras_transformer.distribution import pip_install
from keras_transformer.errors import CannotOpenExport, UserInputError
from keras_transformer.formats.export_translator import ExportTranslator, cpu_threads
from keras_transformer.formats.format import Reading
from keras_transformer.formats.litert.layout import TRANSLATE_IDS, LiteRTDirectory
from keras_transformer.text.sentence_encoding import TargetTags
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter


class LiteRTTranslator(ExportTranslator[list[int]]):
    """Translates lists of sentences with a model that `export_litert` wrote.

    Needs `ai-edge-litert` and `sentencepiece` (the extra `litert`).
    Sentences are sorted by length, run in batches and returned in their original order. The
    translation of an empty sentence is empty. Unpaired surrogates are read as U+FFFD.

    Threads may share a translator; they take turns. The attribute `settings` holds the content of
    `translation.json`; `source_tokenizer` and `tokenizer` are the tokenizers of both sides.

    Args:
        directory: directory that `export_litert` wrote.
        num_threads: number of threads that compute; defaults to the number of cores, at most 4.
        batch_size: maximum number of sentences in a batch.
        long_sentences: what to do with a sentence that is too long: `"refuse"` raises
            `SentenceTooLong`; `"cut"` drops its end, with a `LongSentenceWarning`.
        target_language: code of the target language, for multilingual models, as in `Translator`.

    Raises:
        ValueError: an argument breaks its rule.
        UserInputError: `ai-edge-litert` is not installed, or the directory has no export, or an
            export that has a newer format, has missing or damaged files, or cannot be opened by
            LiteRT.

    Example:

    ```python
    translator = LiteRTTranslator("saved_models/en_de_litert")
    translator.translate(["A small house.", ""])  # ["Ein kleines Haus.", ""]
    ```

    Reference:
        LiteRT's interpreter: https://ai.google.dev/edge/litert/guide/inference
    """

    def __init__(
        self,
        directory: PathLike,
        *,
        num_threads: int | None = None,
        batch_size: int = 8,
        long_sentences: Literal["refuse", "cut"] = "cut",
        target_language: str | None = None,
    ) -> None:
        super().__init__(batch_size, long_sentences)
        num_threads = cpu_threads(num_threads)
        interpreter = interpreter_class()
        files = LiteRTDirectory(directory)
        self.settings = files.read_settings()
        self.source_tokenizer, self.tokenizer = files.load_tokenizers(self.settings)
        self._tags = TargetTags(self.source_tokenizer, target_language)
        try:
            self._model = interpreter(model_path=str(files.model_path), num_threads=num_threads)
            self._translate_ids = self._model.get_signature_runner(TRANSLATE_IDS)
        except (RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CannotOpenExport(f"LiteRT cannot open {files.model_path}: {reason}") from error
        self._lock = threading.Lock()

    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: Literal["refuse", "cut"]
    ) -> tuple[list[list[int]], list[int]]:
        most = self.settings["limits"]["max_source_length"]
        rows = self._tags.encode(name, sentences, most, long_sentences)
        return rows, [len(row) for row in rows]

    def _run(self, encoded: Sequence[list[int]]) -> tuple[list[str], np.ndarray]:
        lengths = np.array([len(row) for row in encoded], "int32")
        input_ids = np.zeros((len(encoded), lengths.max()), "int32")  # the padding is not read
        for array, row in zip(input_ids, encoded, strict=True):
            array[: len(row)] = row
        with self._lock:
            outputs = self._translate_ids(input_ids=input_ids, input_lengths=lengths)
        found = zip(outputs["output_ids"], outputs["output_lengths"], strict=True)
        ids = [row[:length].tolist() for row, length in found]
        return self.tokenizer.decode(ids), outputs["scores"]


def open_export(path: Path, reading: Reading) -> LiteRTTranslator:
    """Return the translator of an export for `translate --engine`."""
    return LiteRTTranslator(
        path, **reading.for_whole_sentences, target_language=reading.target_language
    )


def interpreter_class() -> type["Interpreter"]:
    """Return the class of the interpreter; raise a UserInputError if it is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise UserInputError(f"LiteRT is not installed: {pip_install('litert')}") from error
    return Interpreter

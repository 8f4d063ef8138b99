"""Strings in, strings out, from a LiteRT export: without TensorFlow, and without Keras."""

import threading
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from keras_transformer.argument_checks import check_one_of, check_positive_int
from keras_transformer.distribution import pip_install
from keras_transformer.errors import SCORES_NOT_FINITE, UserInputError
from keras_transformer.serving.cpu_threads import cpu_threads
from keras_transformer.serving.export_contract import NO_SCORE
from keras_transformer.serving.litert_directory import TRANSLATE_IDS, LiteRTDirectory
from keras_transformer.text.sentence_batches import batches_by_length
from keras_transformer.text.sentence_encoding import LongSentences
from keras_transformer.text.target_tags import TargetTags
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from ai_edge_litert.interpreter import Interpreter


class LiteRTTranslator:
    """Translates lists of sentences with a model that `export_litert` wrote.

    Needs `ai-edge-litert` and `sentencepiece` (`pip install 'keras-transformer-garden[litert]'`).
    Sentences are sorted by length, run in batches and returned in their original order. The
    translation of an empty sentence is empty. Unpaired surrogates are read as U+FFFD.

    Threads may share a translator; they take turns. The attribute `settings` is the content of
    `translation.json`; `source_tokenizer` and `tokenizer` are the tokenizers of both sides.

    Args:
        directory: directory that `export_litert` wrote.
        num_threads: number of threads that compute; defaults to the number of cores, at most 4.
        batch_size: maximum number of sentences in a batch.
        long_sentences: what to do with a sentence that is too long: `"refuse"` raises
            `SentenceTooLong`; `"cut"` drops its end, with a `LongSentenceWarning`.
        target_language: code of the target language, for models of several, as in `Translator`.

    Raises:
        ValueError: an argument breaks its rule.
        UserInputError: `ai-edge-litert` is not installed, or the directory holds no export, one of
            a newer format, or one with missing or damaged files.

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
        num_threads = cpu_threads(num_threads)
        check_positive_int("batch_size", batch_size)
        check_one_of("long_sentences", long_sentences, ("refuse", "cut"))
        interpreter = interpreter_class()
        files = LiteRTDirectory(directory)
        self.settings = files.read_settings()
        self.source_tokenizer, self.tokenizer = files.load_tokenizers(self.settings)
        self._tags = TargetTags(self.source_tokenizer, target_language)
        self.batch_size = batch_size
        self.long_sentences: LongSentences = long_sentences
        self._model = interpreter(model_path=str(files.model_path), num_threads=num_threads)
        self._translate_ids = self._model.get_signature_runner(TRANSLATE_IDS)
        self._lock = threading.Lock()

    def translate(self, sentences: Iterable[str], progress: bool = False) -> list[str]:
        """The best translation of each sentence.

        Args:
            sentences: the sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            The translations in the order of `sentences`.

        Raises:
            ValueError, UserInputError: as in `translate_with_scores`.
        """
        return [text for text, _ in self.translate_with_scores(sentences, progress)]

    def translate_with_scores(
        self, sentences: Iterable[str], progress: bool = False
    ) -> list[tuple[str, float]]:
        """The best translation of each sentence, and its score.

        Args:
            sentences: the sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            Pairs `(text, score)` in the order of `sentences`; the score is the log-probability
            divided by the length penalty, 0 for an empty sentence.

        Raises:
            ValueError: `sentences` is a single string, or an entry is not a string.
            SentenceTooLong: a sentence is longer than `max_source_length` and is to be refused. It
                is a `UserInputError`.
            UserInputError: the model's scores are not finite numbers.
        """
        rows = self._encode("sentences", sentences, self.long_sentences)
        results = [("", 0.0)] * len(rows)
        not_empty = [i for i, row in enumerate(rows) if row]
        lengths = [len(row) for row in rows]
        for indices in batches_by_length(not_empty, lengths, self.batch_size, progress):
            ids, scores = self._run([rows[i] for i in indices])
            if not np.all(np.isfinite(scores) & (scores > NO_SCORE)):
                raise UserInputError(f"The {SCORES_NOT_FINITE}")
            texts = self.tokenizer.decode(ids)
            for i, text, score in zip(indices, texts, scores, strict=True):
                results[i] = text, float(score)
        return results

    def check_lengths(self, sources: Iterable[str]) -> None:
        """Raise `SentenceTooLong` if a source is too long, whatever `long_sentences` is."""
        self._encode("sources", sources, "refuse")

    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: LongSentences
    ) -> list[list[int]]:
        most = self.settings["limits"]["max_source_length"]
        return self._tags.encode(name, sentences, most, long_sentences)

    def _run(self, rows: Sequence[list[int]]) -> tuple[list[list[int]], np.ndarray]:
        """The output ids and the scores of rows of ids."""
        lengths = np.array([len(row) for row in rows], "int32")
        input_ids = np.zeros((len(rows), lengths.max()), "int32")  # the padding is not read
        for array, row in zip(input_ids, rows, strict=True):
            array[: len(row)] = row
        with self._lock:
            outputs = self._translate_ids(input_ids=input_ids, input_lengths=lengths)
        found = zip(outputs["output_ids"], outputs["output_lengths"], strict=True)
        return [row[:length].tolist() for row, length in found], outputs["scores"]


def interpreter_class() -> type["Interpreter"]:
    """The class of the interpreter; a UserInputError where it is not installed."""
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise UserInputError(f"LiteRT is not installed: {pip_install('litert')}") from error
    return Interpreter

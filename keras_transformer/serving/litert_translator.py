"""Strings in, strings out, from a LiteRT export: without TensorFlow, and without Keras."""

import os
import threading

import numpy as np

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.distribution import pip_install
from keras_transformer.errors import SCORES_NOT_FINITE, UserInputError
from keras_transformer.serving.export_contract import NO_SCORE
from keras_transformer.serving.litert_directory import TRANSLATE_IDS, LiteRTDirectory
from keras_transformer.text.sentence_batches import batches_by_length
from keras_transformer.text.sentence_encoding import encode_sentences


class LiteRTTranslator:
    """Translates lists of sentences with a model that `export_litert` wrote.

    Needs `ai-edge-litert` and `sentencepiece` (`pip install 'keras-transformer-garden[litert]'`).
    Sentences are sorted by length, run in batches and returned in the order in which they came. An
    empty sentence has the empty translation; one that is too long is cut, with a warning. Half of a
    surrogate pair, which is no character, is read as the bytes of invalid UTF-8 would be, as
    U+FFFD.

    Threads may share it: they take turns. `settings` is the content of `translation.json`,
    `source_tokenizer` and `tokenizer` are its `SentencePieceTokenizer`s.

    Args:
        directory: what `export_litert` wrote.
        num_threads: how many threads compute; None: one for each core, at most 4.
        batch_size: most sentences of a batch.

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

    def __init__(self, directory, *, num_threads=None, batch_size=8):
        if num_threads is not None:
            check_positive_int("num_threads", num_threads)
        check_positive_int("batch_size", batch_size)
        interpreter = _interpreter_class()
        files = LiteRTDirectory(directory)
        self.settings = files.read_settings()
        self.source_tokenizer, self.tokenizer = files.load_tokenizers(self.settings)
        self.batch_size = batch_size
        self._model = interpreter(
            model_path=str(files.model_path), num_threads=num_threads or min(4, _num_cores())
        )
        self._translate_ids = self._model.get_signature_runner(TRANSLATE_IDS)
        self._lock = threading.Lock()

    def translate(self, sentences, progress=False):
        """The best translation of each sentence.

        Args:
            sentences: iterable of strings.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of strings, in the order of `sentences`.

        Raises:
            ValueError, UserInputError: as `translate_with_scores`.
        """
        return [text for text, _ in self.translate_with_scores(sentences, progress)]

    def translate_with_scores(self, sentences, progress=False):
        """The best translation of each sentence, and its score.

        Args:
            sentences: iterable of strings.
            progress: whether to show a progress bar on stderr.

        Returns:
            A list of `(text, score)`, in the order of `sentences`; the score is the log-probability
            divided by the length penalty, that of an empty sentence 0.

        Raises:
            ValueError: `sentences` is one string, or an entry is none.
            UserInputError: the model's scores are not finite numbers.
        """
        most = self.settings["limits"]["max_source_length"]
        rows = encode_sentences("sentences", sentences, self.source_tokenizer, most, "cut")
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

    def _run(self, rows):
        """Lists of output ids, and an array of scores, of rows of ids."""
        lengths = np.array([len(row) for row in rows], "int32")
        input_ids = np.zeros((len(rows), lengths.max()), "int32")  # what fills up is not read
        for array, row in zip(input_ids, rows, strict=True):
            array[: len(row)] = row
        with self._lock:
            outputs = self._translate_ids(input_ids=input_ids, input_lengths=lengths)
        rows = zip(outputs["output_ids"], outputs["output_lengths"], strict=True)
        return [row[:length].tolist() for row, length in rows], outputs["scores"]


def _num_cores():
    """How many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _interpreter_class():
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise UserInputError(f"LiteRT is not installed: {pip_install('litert')}") from error
    return Interpreter

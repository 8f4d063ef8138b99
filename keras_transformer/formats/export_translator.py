"""The base of the translators for exported models."""

import abc
import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Generic, Literal, TypeVar

import numpy as np

from keras_transformer.argument_checks import check_one_of, check_positive_int, of_one_or_many
from keras_transformer.errors import SCORES_NOT_FINITE, CannotOpenExport, UserInputError
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.installation import CORES, num_cores
from keras_transformer.text.sentence_encoding import batches_by_length

_MOST_THREADS = 4  # by default; more threads are seldom faster, and slow down other processes

Encoded = TypeVar("Encoded")  # a sentence in the form that the model takes


class ExportTranslator(abc.ABC, Generic[Encoded]):
    """Base class of translators whose model contains the search.

    Sentences are sorted by length, run in batches and returned in their original order. The
    translation of an empty sentence is empty. Unpaired surrogates are read as U+FFFD.
    """

    def __init__(self, batch_size: int, long_sentences: Literal["refuse", "cut"]) -> None:
        check_positive_int("batch_size", batch_size)
        check_one_of("long_sentences", long_sentences, ("refuse", "cut"))
        self.batch_size = batch_size
        self.long_sentences: Literal["refuse", "cut"] = long_sentences

    @of_one_or_many
    def translate(self, sentences: Iterable[str], progress: bool = False) -> list[str]:
        """Return the best translation of each sentence.

        Args:
            sentences: the sentences to translate, or one of them.
            progress: whether to show a progress bar on stderr.

        Returns:
            The translations in the order of `sentences`; of one sentence, a string.

        Raises:
            ValueError, UserInputError: the same errors as `translate_with_scores`.
        """
        return [text for text, _ in self.translate_with_scores(sentences, progress)]

    __call__ = translate

    def translate_with_scores(
        self, sentences: Iterable[str], progress: bool = False
    ) -> list[tuple[str, float]]:
        """Return the best translation of each sentence and its score.

        Args:
            sentences: the sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            Pairs `(text, score)` in the order of `sentences`; the score is the log-probability
            divided by the length penalty, 0 for an empty sentence.

        Raises:
            ValueError: `sentences` is a single string, or an entry is not a string.
            SentenceTooLong: a sentence is longer than the export's `max_source_length`, and
                `long_sentences` is `"refuse"`. It is a `UserInputError`.
            UserInputError: the model's scores are not finite numbers.
        """
        encoded, lengths = self._encode("sentences", sentences, self.long_sentences)
        results = [("", 0.0)] * len(encoded)
        not_empty = [i for i, length in enumerate(lengths) if length]
        for indices in batches_by_length(not_empty, lengths, self.batch_size, progress):
            texts, scores = self._run([encoded[i] for i in indices])
            if not np.all(np.isfinite(scores) & (scores > NO_SCORE)):
                raise UserInputError(f"The {SCORES_NOT_FINITE}")
            for i, text, score in zip(indices, texts, scores, strict=True):
                results[i] = text, float(score)
        return results

    def check_lengths(self, sources: Iterable[str]) -> None:
        """Raise `SentenceTooLong` if a source is too long, even if `long_sentences` is "cut"."""
        self._encode("sources", sources, "refuse")

    @abc.abstractmethod
    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: Literal["refuse", "cut"]
    ) -> tuple[list[Encoded], list[int]]:
        """Return the sentences in the form that the model takes, and their lengths, 0 if empty.

        `name` is the argument with the sentences, for errors.
        """

    @abc.abstractmethod
    def _run(self, encoded: Sequence[Encoded]) -> tuple[Sequence[str], np.ndarray]:
        """Return the translations of a batch and their scores."""


@contextlib.contextmanager
def opening(fault: str, *errors: type[Exception], advice: str = "") -> Iterator[None]:
    """Turn errors of a runtime into a `CannotOpenExport`, framed by `fault` and `advice`."""
    try:
        yield
    except errors as error:
        raise CannotOpenExport(f"{fault}: {' '.join(str(error).split())}{advice}") from error


def cpu_threads(num_threads: int | None) -> int:
    """Return the checked number of threads, or by default the number of cores, at most 4.

    A worker of a cluster uses all the cores of its share.

    Example:
        >>> cpu_threads(2)
        2
    """
    if num_threads is not None:
        check_positive_int("num_threads", num_threads)
        return int(num_threads)
    return num_cores() if CORES in os.environ else min(_MOST_THREADS, num_cores())

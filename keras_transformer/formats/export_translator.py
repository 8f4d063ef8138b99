"""Base class of the translators for exported models."""

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

_MOST_THREADS = 4  # default limit; more threads are seldom faster and slow down other processes

Encoded = TypeVar("Encoded")  # a sentence as model input


class ExportTranslator(abc.ABC, Generic[Encoded]):
    """Base class of translators whose model includes the search.

    Sentences are sorted by length, translated in batches and returned in their original order. The
    translation of an empty sentence is empty. Unpaired surrogates are replaced with U+FFFD.
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
            sentences: sentences to translate, or a single sentence.
            progress: whether to show a progress bar on stderr.

        Returns:
            The translations in the order of `sentences`; for a single sentence, a string.

        Raises:
            ValueError, UserInputError: see `translate_with_scores`.
        """
        return [text for text, _ in self.translate_with_scores(sentences, progress)]

    __call__ = translate

    def translate_with_scores(
        self, sentences: Iterable[str], progress: bool = False
    ) -> list[tuple[str, float]]:
        """Return the best translation of each sentence and its score.

        Args:
            sentences: sentences to translate.
            progress: whether to show a progress bar on stderr.

        Returns:
            `(text, score)` pairs in the order of `sentences`. The score is the log-probability
            divided by the length penalty, or 0 for an empty sentence.

        Raises:
            ValueError: `sentences` is a single string, or an entry is not a string.
            SentenceTooLong: a sentence is longer than the export's `max_source_length`, and
                `long_sentences` is `"refuse"`. A subclass of `UserInputError`.
            UserInputError: the model's scores are not finite.
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
        """Raise `SentenceTooLong` if a source is too long, even with `long_sentences="cut"`."""
        self._encode("sources", sources, "refuse")

    @abc.abstractmethod
    def _encode(
        self, name: str, sentences: Iterable[str], long_sentences: Literal["refuse", "cut"]
    ) -> tuple[list[Encoded], list[int]]:
        """Return the sentences as model inputs and their lengths, which are 0 for empty sentences.

        `name` is the argument name used in error messages.
        """

    @abc.abstractmethod
    def _run(self, encoded: Sequence[Encoded]) -> tuple[Sequence[str], np.ndarray]:
        """Return the translations of a batch and their scores."""


@contextlib.contextmanager
def opening(fault: str, *errors: type[Exception], advice: str = "") -> Iterator[None]:
    """Convert runtime errors to a `CannotOpenExport` that includes `fault` and `advice`."""
    try:
        yield
    except errors as error:
        raise CannotOpenExport(f"{fault}: {' '.join(str(error).split())}{advice}") from error


def cpu_threads(num_threads: int | None) -> int:
    """Validate and return the number of threads. The default is the number of cores, up to 4.

    A cluster worker uses all cores allocated to it.

    Example:
        >>> cpu_threads(2)
        2
    """
    if num_threads is not None:
        check_positive_int("num_threads", num_threads)
        return int(num_threads)
    return num_cores() if CORES in os.environ else min(_MOST_THREADS, num_cores())

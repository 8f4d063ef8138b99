"""Base class of the translators for exported models."""

import abc
import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Generic, Literal, TypeVar

import numpy as np

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    checked_strings,
    of_one_or_many,
)
from keras_transformer.errors import SCORES_NOT_FINITE, CannotOpenExport, UserInputError
from keras_transformer.formats.format import ALIGN_IDS, NO_SCORE, TRANSLATE_IDS_WITH_TERMS, no_terms
from keras_transformer.formats.sentence_translator import Rows, SentenceTranslator
from keras_transformer.installation import CORES, num_cores
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.alignment import Alignment
from keras_transformer.text.glossary import Terms
from keras_transformer.text.sentence_encoding import batches_by_length
from keras_transformer.text.term_forms import array_of_terms, hypotheses_of
from keras_transformer.types import NONE, MarkupKind, TermForm

_MOST_THREADS = 4  # default limit; more threads are seldom faster and slow down other processes

Encoded = TypeVar("Encoded")  # a sentence as model input


class ExportTranslator(abc.ABC, Generic[Encoded]):
    """Base class of translators whose model includes the search.

    Sentences are sorted by length, translated in batches and returned in their original order. The
    translation of an empty sentence is empty. Unpaired surrogates are replaced with U+FFFD.
    """

    def __init__(
        self, batch_size: int, long_sentences: Literal["refuse", "cut"], source_language: str
    ) -> None:
        check_positive_int("batch_size", batch_size)
        check_one_of("long_sentences", long_sentences, ("refuse", "cut"))
        self.batch_size = batch_size
        self.long_sentences: Literal["refuse", "cut"] = long_sentences
        self.source_language = source_language

    @of_one_or_many
    def translate(
        self,
        sentences: Iterable[str],
        progress: bool = False,
        *,
        glossary: Terms | None = None,
        keep: str | None = None,
        markup: MarkupKind | None = None,
    ) -> list[str]:
        """Return the best translation of each sentence.

        Args:
            sentences: sentences to translate, or a single sentence.
            progress: whether to show a progress bar on stderr.
            glossary, keep: as in `Translator.translate`. They need an export with `terms=True`.
            markup: as in `Translator.translate`. It also needs a model with an alignment head, and
                `long_sentences="refuse"`.

        Returns:
            The translations in the order of `sentences`; for a single sentence, a string.

        Raises:
            ValueError, UserInputError: see `translate_with_scores`.
            UserInputError: the export has no terms or no alignment head, the terms of a sentence
                cannot be met, or an XML document is not well-formed.
        """
        if glossary is not None or markup is not None or keep not in (None, NONE):
            if TRANSLATE_IDS_WITH_TERMS not in self._signature_names:
                raise no_terms(self._place)
            if markup is not None:
                self._check_aligns()
            sentences = checked_strings("sentences", sentences)
            how: dict[str, Any] = {"glossary": glossary, "keep": keep, "markup": markup}
            return self._by_ids.translate(sentences, progress=progress, **how)
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

    def align(
        self, sources: Iterable[str], targets: Iterable[str], *, progress: bool = False
    ) -> list[Alignment]:
        """Align translations with their sources, as `Translator.align` does.

        Args:
            sources, targets, progress: as in `Translator.align`.

        Returns:
            The alignments in the order of `sources`.

        Raises:
            UserInputError: the model has no alignment head.
        """
        self._check_aligns()
        return self._by_ids.align(sources, targets, progress=progress)

    def _check_aligns(self) -> None:
        if ALIGN_IDS not in self._signature_names:
            raise UserInputError(
                f"{self._place} has no alignment head: train one with `train --alignment-only`, "
                "and export the model again."
            )

    def check_lengths(self, sources: Iterable[str]) -> None:
        """Raise `SentenceTooLong` if a source is too long, even with `long_sentences="cut"`."""
        self._encode("sources", sources, "refuse")

    @property
    @abc.abstractmethod
    def _place(self) -> object:
        """The location of the export, for messages."""

    @property
    @abc.abstractmethod
    def _signature_names(self) -> Collection[str]:
        """The names of the export's signatures."""

    @property
    @abc.abstractmethod
    def _by_ids(self) -> "IdsTranslator":
        """The translator of an export with terms or with an alignment head."""

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


# Maps ids and terms to the ids and scores of the best translations. The terms are the array of
# `array_of_terms`, or None for rows without terms.
RunIds = Callable[[Rows, np.ndarray | None], tuple[Rows, Iterable[float]]]
# Maps ids of sources and of targets to weights (batch, target, source).
AlignIds = Callable[[Rows, Rows], np.ndarray]


class IdsTranslator(SentenceTranslator):
    """Translates and aligns sentences with an export that maps ids to ids.

    Unlike the strings of an export, its ids may have terms and variables.

    Args:
        run: function that runs the export on a batch.
        source_tokenizer, tokenizer: the tokenizers of the export.
        search_options: `max_source_length` and `extra_length` of the export.
        batch_size, long_sentences, source_language, target_language: as in `Translator`.
        align: function that aligns a batch; None if the export has no alignment head.
    """

    max_length = None
    _has_terms = True
    _is_guided = True

    def __init__(
        self,
        run: RunIds,
        source_tokenizer: SentencePieceTokenizer,
        tokenizer: SentencePieceTokenizer,
        search_options: SearchOptions,
        *,
        batch_size: int,
        long_sentences: Literal["refuse", "cut"],
        source_language: str = "en",
        target_language: str | None = None,
        align: AlignIds | None = None,
    ) -> None:
        super().__init__(
            source_tokenizer,
            tokenizer,
            search_options,
            batch_size=batch_size,
            long_sentences=long_sentences,
            source_language=source_language,
            target_language=target_language,
        )
        generator: Any = IdsGenerator(run, align, batch_size)
        self._generator = generator


class IdsGenerator:
    """The `search` and the `alignment` of an `IdsTranslator`."""

    def __init__(self, run: RunIds, align: AlignIds | None, batch_size: int) -> None:
        self._run, self._align, self._batch_size = run, align, batch_size

    def search(
        self,
        rows: Rows,
        prefix_rows: Rows,
        num_results: int,
        progress: bool = False,
        terms: Sequence[Sequence[TermForm]] | None = None,
    ) -> Iterator[tuple[int, Rows, list[float]]]:
        """Yield `(index, ids, scores)` with the best output for each nonempty row."""
        terms = [()] * len(rows) if terms is None else terms
        # Rows with more terms take longer.
        numbers = [hypotheses_of(forms, beam_size=1) or 0 for forms in terms]
        for number in sorted(set(numbers)):
            own = [i for i, row in enumerate(rows) if row and numbers[i] == number]
            for indices in batches_by_length(own, [*map(len, rows)], self._batch_size, progress):
                array = array_of_terms([terms[i] for i in indices]) if number else None
                found = self._run([rows[i] for i in indices], array)
                for i, ids, score in zip(indices, *found, strict=True):
                    if not np.isfinite(score) or (score <= NO_SCORE and not number):
                        raise UserInputError(f"The {SCORES_NOT_FINITE}")
                    if score <= NO_SCORE:
                        raise UserInputError(
                            f"The terms of sentence {i + 1:,} must fit into its translation: "
                            "export the model with a larger `extra_length`."
                        )
                    yield i, [ids], [float(score)]

    def alignment(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield `(index, weights)` for each pair: float32 (target tokens, source tokens + EOS)."""
        assert self._align is not None
        lengths = [max(map(len, pair)) for pair in zip(source_rows, target_rows, strict=True)]
        for indices in batches_by_length(range(len(lengths)), lengths, self._batch_size, progress):
            sides = [[rows[i] for i in indices] for rows in (source_rows, target_rows)]
            for i, weights in zip(indices, self._align(*sides), strict=True):
                weights = weights[: len(target_rows[i]), : len(source_rows[i]) + 1]
                if np.isnan(weights).any():
                    raise UserInputError(f"The {SCORES_NOT_FINITE}")
                yield i, weights


def padded_ids(rows: Rows) -> tuple[np.ndarray, np.ndarray]:
    """Return the ids, int32 (batch, length), and the lengths of rows, as inputs of a signature."""
    lengths = np.array([*map(len, rows)], "int32")
    ids = np.zeros((len(rows), max(1, *lengths)), "int32")  # padding is not read
    for array, row in zip(ids, rows, strict=True):
        array[: len(row)] = row
    return ids, lengths


def source_and_target(source_rows: Rows, target_rows: Rows) -> dict[str, np.ndarray]:
    """Return the inputs of the signature `ALIGN_IDS`."""
    names = ("input_ids", "input_lengths", "target_ids", "target_lengths")
    arrays = (*padded_ids(source_rows), *padded_ids(target_rows))
    return dict(zip(names, arrays, strict=True))


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

"""Translations with terms on a model server, for clients with NumPy and SentencePiece."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from keras_transformer.formats.export_translator import IdsTranslator
from keras_transformer.formats.saved_model.reader import decoded_tokenizer, vocabularies_of
from keras_transformer.formats.sentence_translator import Rows
from keras_transformer.search_options import SearchOptions
from keras_transformer.text.term_forms import array_of_terms
from keras_transformer.types import TermForm

_MOST_TOKENS = 1_000_000  # the largest `max_source_length`; the server cuts earlier

# Returns the output rows, their scores and the vocabularies of rows with nested lists of terms.
Predict = Callable[[list[list[int]], list[Any]], tuple[Rows, list[float], list[str]]]


class OtherVocabularies(Exception):
    """The server has a model with other vocabularies than the client."""


class ServedTerms(IdsTranslator):
    """Translates sentences with terms on a model server.

    Args:
        predict: function that calls the server on a batch.
        models: the SentencePiece models of the source and of the target, as encoded by the server.
        batch_size: maximum number of sentences in a batch.

    Raises:
        ValueError: a SentencePiece model is damaged.
    """

    def __init__(self, predict: Predict, models: Iterable[str], batch_size: int) -> None:
        source_tokenizer, tokenizer = map(decoded_tokenizer, models)
        own_vocabularies = vocabularies_of(source_tokenizer, tokenizer)

        def run(rows: Rows, terms: np.ndarray | None) -> tuple[Rows, list[float]]:
            no_terms: list[tuple[TermForm, ...]] = [()] * len(rows)
            array = array_of_terms(no_terms) if terms is None else terms
            # A batching model server pads with the first element, which must not be a token.
            array = np.pad(array, ((0, 0), (1, 0), (0, 0)), constant_values=-1)
            ids, scores, vocabularies = predict([[*row] for row in rows], array.tolist())
            if any(each != own_vocabularies for each in vocabularies):
                raise OtherVocabularies
            return ids, scores

        super().__init__(
            run,
            source_tokenizer,
            tokenizer,
            SearchOptions(max_source_length=_MOST_TOKENS),
            batch_size=batch_size,
            long_sentences="cut",
        )

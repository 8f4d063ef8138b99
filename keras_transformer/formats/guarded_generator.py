"""Model, search and limits combined into a single graph for exports.

The functions use only `keras.ops` on tensors of static rank, so they can run in a SavedModel and in
a LiteRT model.

Axes in the shape comments:
    batch    sentences
    length   tokens of the longest input
    source   min(length + 1, `max_source_length`), EOS counted
    forms    forms of the terms of a sentence
    n        translations of a sentence, best first
    output   tokens of an output and its EOS
"""

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_bool
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.model_card import TranslationModel
from keras_transformer.models import Transformer
from keras_transformer.search_options import EXPORT, SearchOptions, search_over
from keras_transformer.text import Shortlist
from keras_transformer.text.words import token_flags
from keras_transformer.types import COUNT, FIRST_TOKEN, IS_RESERVED, TERM, SpecialTokens, Tensor

_MORE_COLUMNS = 8  # the search needs a few columns, even without tokens


class GraphShortlist:
    """Tensor implementation of `Shortlist.candidates`.

    The number of candidates depends on the batch, so XLA cannot compile it.
    """

    def __init__(self, shortlist: Shortlist) -> None:
        tokens, size = shortlist.tokenizer.special_tokens, shortlist.tokenizer.vocabulary_size
        counts = np.zeros(shortlist.source_tokenizer.vocabulary_size, "int32")
        counts[: len(shortlist.offsets) - 1] = np.diff(shortlist.offsets)
        counts[tokens.pad] = 0
        starts = np.zeros_like(counts)
        starts[: len(shortlist.offsets) - 1] = shortlist.offsets[:-1]
        is_always, is_never = np.zeros((2, size), bool)
        is_always[[*shortlist.always, tokens.eos]] = True
        is_never[[tokens.pad, tokens.bos]] = True
        self._copies = shortlist.copies
        self._size = size
        self._most = int(counts.max(initial=0))
        # Tensors created outside the graph and shared by all functions of an export.
        self._counts, self._starts = ops.convert_to_tensor(counts), ops.convert_to_tensor(starts)
        kind = "int16" if size <= 1 << 15 else "int32"
        translations = np.append(shortlist.translations, tokens.pad).astype(kind)
        self._translations = ops.convert_to_tensor(translations)
        self._is_always = ops.convert_to_tensor(is_always & ~is_never)
        self._is_possible = ops.convert_to_tensor(~is_never)

    def candidates(self, source_ids: Tensor, required: Tensor | None = None) -> Tensor:
        """Return each sentence's candidates for `SequenceGenerator.search`.

        Args:
            source_ids: int32 (batch, length), tokens followed by padding.
            required: int32 (batch, n), target tokens that become candidates, and padding.

        Returns:
            int32 (batch, candidates), as returned by `Shortlist.candidates`.
        """
        batch_size, length = ops.shape(source_ids)
        number = ops.arange(self._most, dtype="int32")
        counts = ops.expand_dims(ops.take(self._counts, source_ids, axis=0), 2)
        places = ops.expand_dims(ops.take(self._starts, source_ids, axis=0), 2) + number
        padding = ops.shape(self._translations)[0] - 1
        places = ops.where(number < counts, places, padding)  # (batch, length, most)
        found = ops.cast(ops.take(self._translations, places, axis=0), "int32")
        if self._copies:
            found = ops.concatenate([found, ops.expand_dims(source_ids, 2)], axis=2)
        found = ops.reshape(found, (batch_size, length * (self._most + self._copies)))
        if required is not None:
            found = ops.concatenate([found, required], axis=1)
        rows = ops.expand_dims(ops.arange(batch_size, dtype="int32"), 1)
        places = ops.stack([ops.broadcast_to(rows, ops.shape(found)), found], axis=2)
        places = ops.reshape(places, (-1, 2))
        ones = ops.ones_like(places[:, 0])
        is_candidate = ops.scatter(places, ones, (batch_size, self._size)) > 0
        is_candidate = ops.logical_and(is_candidate, self._is_possible)
        is_candidate = ops.logical_or(is_candidate, self._is_always)  # (batch, vocabulary)
        # LiteRT does not support Keras's implementation of `nonzero`.
        is_column = ops.any(is_candidate, axis=0)
        order = ops.where(is_column, self._size - ops.arange(self._size, dtype="int32"), 0)
        columns = self._size - ops.top_k(order, ops.sum(ops.cast(is_column, "int32")))[0]
        ids = ops.where(ops.take(is_candidate, columns, axis=1), columns, -1)
        return ops.pad(ids, [[0, 0], [0, _MORE_COLUMNS]], constant_values=-1)


class GuardedGenerator:
    """A `SequenceGenerator` with fixed search options that accepts unchecked inputs.

    Ids outside the vocabulary are read as the unknown token. Sources that are too long are
    truncated but still end with EOS. A source without tokens has an empty translation with score 0.
    Each row's result is independent of the other rows. The given models form an ensemble.
    `jit_compile` controls whether XLA compiles the search graph on TensorFlow, except for searches
    with terms. If the translator has a shortlist, the search uses only its candidates.

    Attributes:
        aligns: whether exports align words, by default if every model has an alignment head.
    """

    def __init__(
        self,
        translator: TranslationModel,
        models: Sequence[keras.Model],
        options: SearchOptions,
        jit_compile: bool = False,
    ) -> None:
        source_tokenizer, tokenizer = translator.source_tokenizer, translator.tokenizer
        shortlist = translator.shortlist
        self.options = options
        self._shortlist = None if shortlist is None else GraphShortlist(shortlist)
        self.source_tokens = source_tokenizer.special_tokens
        self.tokens = tokenizer.special_tokens
        self._source_vocabulary_size = source_tokenizer.vocabulary_size
        self._vocabulary_size = tokenizer.vocabulary_size
        self._generator = SequenceGenerator(
            models, self.tokens, self._vocabulary_size, jit_compile=jit_compile
        )
        self.model = self._generator.model
        self._models, self._tokenizer = models, tokenizer
        heads = [Transformer.of(model).alignment_head for model in models]
        self.aligns = None not in heads

    def source(self, input_ids: Tensor, input_lengths: Tensor, even_empty: bool = False) -> Tensor:
        """Return the encoder input.

        Args:
            input_ids: int32 (batch, length), tokens, optionally followed by EOS. Ids beyond a row's
                length are ignored.
            input_lengths: int32 (batch,), number of tokens in each row.
            even_empty: whether to convert a row without tokens to EOS instead of only padding.

        Returns:
            int32 (batch, source), tokens, EOS and padding.
        """
        return self._ended(
            input_ids,
            input_lengths,
            self.source_tokens,
            self._source_vocabulary_size,
            self.options.max_source_length,
            even_empty,
        )

    def search(
        self,
        input_ids: Tensor,
        input_lengths: Tensor,
        num_results: int = 1,
        terms: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the best translations of each source.

        Args:
            input_ids, input_lengths: as in `source`.
            num_results: number of translations per source, at most the beam size.
            terms: int32 (batch, forms, 3 + form_length), the terms of each source; see
                `decoding.RequiredTerms`. The translation of a source is empty with `NO_SCORE` if
                its terms do not fit into the output limit or are not tokens of the vocabulary.

        Returns:
            output_ids: int32 (batch, num_results, output), tokens without EOS, followed by padding.
            output_lengths: int32 (batch, num_results), number of tokens in each translation.
            scores: float32 (batch, num_results), log-probabilities divided by the length penalty;
                unused results have 0 tokens and score `NO_SCORE`.
        """
        return self.search_sources(self.source(input_ids, input_lengths), num_results, terms)

    def search_sources(
        self, source_ids: Tensor, num_results: int = 1, terms: Tensor | None = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Like `search`, but accepts the output of `source`, with optional additional padding."""
        options = dataclasses.replace(self.options, num_results=num_results)
        generator, required, is_possible = self._generator, None, None
        if terms is not None:
            generator = self._with_terms
            terms, is_possible = self._possible_terms(terms, source_ids)
            required = self._tokens_of(terms)
        candidate_ids = None
        if self._shortlist is not None:
            candidate_ids = self._shortlist.candidates(source_ids, required)
        ids, scores = generator.search(source_ids, None, candidate_ids, terms, options=options)
        is_empty = ops.all(source_ids == self.source_tokens.pad, axis=1)  # (batch,)
        is_empty = ops.expand_dims(is_empty, 1)  # (batch, 1)
        scores = ops.maximum(scores, NO_SCORE)  # (batch, n)
        if is_possible is not None:
            scores = ops.where(is_possible, scores, NO_SCORE)
            ids = ops.where(ops.expand_dims(is_possible, 2), ids, self.tokens.pad)
        first = ops.expand_dims(ops.arange(num_results) == 0, 0)  # (1, n)
        scores = ops.where(is_empty, ops.where(first, 0.0, NO_SCORE), scores)
        is_token = ops.logical_and(ids != self.tokens.eos, ids != self.tokens.pad)
        is_token = ops.logical_and(is_token, ops.expand_dims(ops.logical_not(is_empty), 2))
        ids = ops.where(is_token, ids, self.tokens.pad)  # (batch, n, output)
        return ids, ops.sum(ops.cast(is_token, "int32"), axis=2), scores

    @functools.cached_property
    def _token_flags(self) -> np.ndarray:
        return token_flags(self._tokenizer, self.model.vocabulary_size)

    @functools.cached_property
    def _with_terms(self) -> SequenceGenerator:
        how: dict[str, Any] = {"jit_compile": False, "token_flags": self._token_flags}
        return SequenceGenerator(self._models, self.tokens, self._vocabulary_size, **how)

    def _possible_terms(self, terms: Tensor, source_ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the terms without those of sentences whose terms cannot be met.

        Returns:
            `(terms, is_possible)`: the terms, in the same shape; bool (batch, 1), whether the terms
            of each sentence are tokens of the vocabulary and fit into the output limit.
        """
        _, num_forms, width = ops.shape(terms)
        terms = ops.pad(ops.cast(terms, "int32"), [[0, 0], [0, 1], [0, 1]], constant_values=-1)
        # A search needs at least one form of one token.
        num_forms, width = ops.maximum(num_forms, 1), ops.maximum(width, FIRST_TOKEN + 1)
        terms = terms[:, :num_forms, :width]
        is_form = terms[:, :, COUNT] > 0  # (batch, forms)
        numbers = ops.arange(num_forms, dtype="int32")
        term = ops.clip(terms[:, :, TERM], 0, num_forms - 1)
        # The tokens of a form end at the first that is negative.
        tokens = terms[:, :, FIRST_TOKEN:]
        is_token = ops.cumsum(ops.cast(tokens < 0, "int32"), axis=2) == 0
        is_known = _is_piece(tokens, self.tokens, self._vocabulary_size)
        is_right = ops.all(ops.logical_or(is_known, ops.logical_not(is_token)), axis=2)
        lengths = ops.sum(ops.cast(is_token, "int32"), axis=2)  # (batch, forms)
        is_right = ops.logical_and(is_right, lengths > 0)
        is_right = ops.all(ops.logical_or(is_right, ops.logical_not(is_form)), axis=1)  # (batch,)

        # As in `tokens_needed`. Floats do not overflow.
        is_of = ops.logical_and(ops.expand_dims(term, 1) == numbers[:, None], is_form[:, None])
        counts = ops.max(ops.where(is_of, ops.expand_dims(terms[:, :, COUNT], 1), 0), axis=2)
        shortest = ops.min(ops.where(is_of, lengths[:, None], width), axis=2)  # (batch, terms)
        needed = ops.cast(counts, "float32") * ops.cast(shortest + 1, "float32")
        needed = ops.sum(needed, axis=1)  # (batch,)
        num_tokens = ops.sum(ops.cast(source_ids != self.source_tokens.pad, "int32"), axis=1) - 1
        limits = num_tokens + self.options.extra_length
        if self.model.max_length is not None:
            limits = ops.minimum(limits, self.model.max_length - 1)
        is_possible = ops.logical_and(is_right, needed <= ops.cast(limits, "float32"))
        is_used = ops.logical_and(is_form, is_possible[:, None])  # (batch, forms)
        columns = ops.stack([term, terms[:, :, COUNT], terms[:, :, IS_RESERVED]], axis=2)
        terms = ops.concatenate(
            [
                ops.where(ops.expand_dims(is_used, 2), columns, 0),
                ops.where(ops.logical_and(is_token, ops.expand_dims(is_used, 2)), tokens, -1),
            ],
            axis=2,
        )
        is_without = ops.all(ops.logical_not(is_form), axis=1)
        return terms, ops.logical_or(is_possible, is_without)[:, None]

    def _tokens_of(self, terms: Tensor) -> Tensor:
        """Return the tokens of terms and the gap, int32 (batch, n), with padding."""
        tokens = terms[:, :, FIRST_TOKEN:]
        batch_size, num_forms, length = ops.shape(tokens)
        tokens = ops.reshape(tokens, (batch_size, num_forms * length))
        tokens = ops.where(tokens < 0, self.tokens.pad, tokens)
        gap = int(np.argmax(self._token_flags))
        return ops.pad(tokens, [[0, 0], [0, 1]], constant_values=gap)

    def alignment(
        self, input_ids: Tensor, input_lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return how much each target token is aligned with each source token.

        Args:
            input_ids, input_lengths, target_ids, target_lengths: as in `score`.

        Returns:
            float32 (batch, target, source), with a row for each column of `target_ids`. The row of
            a token sums to 1 over the tokens of its source and EOS. Other rows are 0, and so are
            rows of tokens beyond the longest possible output.
        """
        source_ids = self.source(input_ids, input_lengths, even_empty=True)
        width = ops.shape(target_ids)[1]
        longest = ops.max(ops.clip(target_lengths, 0, width), initial=0)
        longest = ops.minimum(longest, self._most_target_tokens - 1)
        labels, inputs = self._targets(target_ids[:, :longest], target_lengths)
        weights = self._generator.alignment(source_ids, inputs)  # (batch, longest + 1, source)
        is_token = ops.logical_and(labels != self.tokens.eos, labels != self.tokens.pad)
        weights = ops.where(ops.expand_dims(is_token, 2), ops.cast(weights, "float32"), 0.0)
        return ops.pad(weights, [[0, 0], [0, width - longest], [0, 0]])[:, :width]

    def score(
        self, input_ids: Tensor, input_lengths: Tensor, target_ids: Tensor, target_lengths: Tensor
    ) -> Tensor:
        """Return the natural-log probabilities of translations, including EOS.

        Args:
            input_ids, input_lengths: as in `source`.
            target_ids, target_lengths: ids and lengths of the translations, in the same form.

        Returns:
            float32 (batch,). Translations longer than any possible output get `NO_SCORE`. The limit
            is `max_source_length` plus `extra_length`, or the number of positions.
        """
        source_ids = self.source(input_ids, input_lengths, even_empty=True)
        labels, inputs = self._targets(target_ids, target_lengths)
        log_probs = self._generator.score(source_ids, inputs, labels, self.options.renormalize)
        num_tokens = _num_tokens(target_ids, target_lengths, self.tokens.eos)[:, 0]  # (batch,)
        return ops.where(num_tokens < self._most_target_tokens, log_probs, NO_SCORE)

    @property
    def _most_target_tokens(self) -> int:
        """Maximum length of an output, including EOS."""
        most = self.options.max_source_length + self.options.extra_length
        return most if self.model.max_length is None else min(most, self.model.max_length)

    def _targets(self, target_ids: Tensor, target_lengths: Tensor) -> tuple[Tensor, Tensor]:
        """Return `(labels, inputs)`, int32 (batch, target): tokens and EOS, BOS and tokens."""
        labels = self._ended(
            target_ids,
            target_lengths,
            self.tokens,
            self._vocabulary_size,
            self._most_target_tokens,
            even_empty=True,
        )
        bos = ops.full_like(labels[:, :1], self.tokens.bos)
        inputs = ops.where(labels == self.tokens.eos, self.tokens.pad, labels)
        return labels, ops.concatenate([bos, inputs[:, :-1]], axis=1)

    def _ended(
        self,
        ids: Tensor,
        lengths: Tensor,
        special_tokens: SpecialTokens,
        vocabulary_size: int,
        most: int,
        even_empty: bool,
    ) -> Tensor:
        """Return padded rows of at most `most` tokens with EOS. For empty rows, see `source`."""
        lengths = ops.minimum(_num_tokens(ids, lengths, special_tokens.eos), most - 1)
        ids = ops.pad(ids, [[0, 0], [0, 1]])  # room for EOS
        positions = _positions(ids)
        is_piece = _is_piece(ids, special_tokens, vocabulary_size)
        ids = ops.where(is_piece, ids, special_tokens.unk)
        is_last = positions == lengths
        if not even_empty:
            is_last = ops.logical_and(is_last, lengths > 0)
        rest = ops.where(is_last, special_tokens.eos, special_tokens.pad)
        return ops.where(positions < lengths, ids, rest)[:, :most]


def _is_piece(ids: Tensor, special_tokens: SpecialTokens, vocabulary_size: int) -> Tensor:
    """Return whether ids are tokens of text that the vocabulary covers."""
    is_piece = ops.logical_and(ids >= 0, ids < vocabulary_size)
    for special in dataclasses.astuple(special_tokens):
        is_piece = ops.logical_and(is_piece, ids != special)
    return is_piece


def _num_tokens(ids: Tensor, lengths: Tensor, eos: int) -> Tensor:
    """Return the number of tokens in each row, int32 (batch, 1), excluding a final EOS."""
    lengths = ops.expand_dims(ops.cast(lengths, "int32"), 1)  # (batch, 1)
    lengths = ops.clip(lengths, 0, ops.shape(ids)[1])
    is_end = ops.logical_and(_positions(ids) == lengths - 1, ids == eos)
    return lengths - ops.sum(ops.cast(is_end, "int32"), axis=1, keepdims=True)


def _positions(ids: Tensor) -> Tensor:
    """Return the column indices 0, 1, 2, ..., int32 (1, length)."""
    return ops.expand_dims(ops.arange(ops.shape(ids)[1], dtype="int32"), 0)


def check_tensorflow_backend(what: str) -> None:
    """Require the TensorFlow backend to write `what`, such as "A SavedModel"."""
    backend = keras.backend.backend()
    if backend != "tensorflow":
        raise UserInputError(
            f"{what} is written by the TensorFlow backend: set KERAS_BACKEND=tensorflow. "
            f"Received: {backend}"
        )


def check_terms(translator: TranslationModel, terms: bool) -> None:
    """Require the argument `terms` of a writer to be possible for the model."""
    check_bool("terms", terms)
    if terms and translator.tokenizer.right_to_left:
        raise UserInputError("`terms` must be False for a model that writes from right to left.")


def exported_search(translator: TranslationModel, **options: Any) -> SearchOptions:
    """Return the search options of an export. Missing options default to the translator's.

    Options that are None are treated as missing. Sources are truncated to `max_source_length`,
    which defaults to 256 and is capped at the model's number of positions. `num_results` defaults
    to `beam_size`.
    """
    given: Any = {name: value for name, value in options.items() if value is not None}
    given = {"max_source_length": EXPORT.max_source_length, **given}
    own: Any = dataclasses.asdict(translator.search_options)
    search = SearchOptions(**search_over(own, given))
    return dataclasses.replace(
        search,
        max_source_length=search.source_limit(translator.max_length),
        num_results=search.num_results or search.beam_size,
    )


def exported_graph(
    translator: TranslationModel, search: SearchOptions, precision: str, jit_compile: bool = False
) -> tuple[list[keras.Model], GuardedGenerator]:
    """Return the models in the given precision and the generator of the exported graph."""
    models = [with_precision(model, precision) for model in translator.models]
    return models, GuardedGenerator(translator, models, search, jit_compile)


def search_card(translator: TranslationModel, search: SearchOptions, **more: Any) -> dict[str, Any]:
    """Return the options shown in the model card of an export that includes a search."""
    return {**dataclasses.asdict(search), **more, "shortlist": translator.shortlist is not None}


def with_precision(model: keras.Model, precision: str) -> keras.Model:
    """Return a copy of the model with this dtype policy, or the model if it already uses it.

    Under every policy, the layers compute some values in float32: softmax, normalization,
    positions, logits after the matrix product, log-probabilities and scores.

    Example:
        >>> from keras_transformer.models import build_transformer
        >>> model = with_precision(build_transformer("tiny", vocabulary_size=20), "bfloat16")
        >>> {keras.backend.standardize_dtype(weight.dtype) for weight in model.weights}
        {'bfloat16'}
    """
    transformer = Transformer.of(model)
    if transformer.dtype_policy.name == precision:
        return model

    def copy(layer: keras.layers.Layer) -> keras.layers.Layer:
        return type(layer).from_config({**layer.get_config(), "dtype": precision})

    copied = keras.models.clone_model(transformer, clone_function=copy)
    copied.set_weights(model.get_weights())
    return copied

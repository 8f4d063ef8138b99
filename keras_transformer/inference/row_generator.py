"""Generate rows of ids in batches, with compilation if the backend supports it."""

import dataclasses
import functools
import itertools
import math
import os
import sys
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import keras
import numpy as np

from keras_transformer.argument_checks import check_non_negative_int
from keras_transformer.decoding.compiled_calls import (
    CompiledCalls,
    JitCompile,
    WithoutNone,
    compiles_with_xla,
)
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.errors import SCORES_NOT_FINITE, UserInputError, refuse
from keras_transformer.formats.sentence_translator import Rows
from keras_transformer.inference.litert_graph import LiteRTGraph
from keras_transformer.installation import MOST_AT_ONCE, THREADS, has_accelerator, num_cores
from keras_transformer.models import Transformer
from keras_transformer.models.model_options import machine_memory
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer, Shortlist
from keras_transformer.text.sentence_encoding import batches_by_length
from keras_transformer.text.term_forms import array_of_terms, hypotheses_of, tokens_needed
from keras_transformer.text.words import token_flags
from keras_transformer.types import FIRST_TOKEN, Tensor, TermForm


class GraphCalls:
    """Calls functions of batches, compiling each function on its first call.

    TensorFlow traces one graph for all shapes. `CompiledCalls` would trace several graphs, and
    tracing a search takes seconds. On other backends, calls go through `CompiledCalls`. XLA
    compiles each shape separately, so pad inputs to a few shapes if you use XLA. Calls always use
    the current weights.

    Args:
        models: models whose variables the functions read.
        jit_compile: see `compiles_with_xla`.

    Attributes:
        with_xla: whether XLA compiles the functions.
    """

    def __init__(self, models: Sequence[keras.Model], jit_compile: JitCompile = "auto") -> None:
        variables = [variable for model in models for variable in model.variables]
        self._by_keras = CompiledCalls(lambda: variables, jit_compile)
        self.with_xla = self._by_keras.with_xla
        self._graphs: dict[tuple[Hashable, ...], Callable[..., Any]] = {}
        self._lock = threading.Lock()  # simultaneous calls must share one graph

    def __call__(
        self, function: Callable[..., Any], *arrays: np.ndarray | None, **options: Hashable
    ) -> Any:
        """Return `function(*arrays, **options)` as NumPy arrays; equal options share one graph.

        Args:
            function: function of tensors, using `keras.ops`, that returns nested tensors.
            *arrays: arrays, whose axes may vary between calls, or None.
            **options: keyword options; must have the same names in every call to `function`.
        """
        function, given = WithoutNone.of(function, arrays)
        if keras.backend.backend() == "tensorflow":
            outputs = self._graph(function, given, options)(*given)
        else:
            tensors = map(keras.ops.convert_to_tensor, given)
            outputs = self._by_keras(function, *tensors, **options)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)

    def _graph(
        self, function: Callable[..., Any], arrays: list[np.ndarray], options: dict[str, Hashable]
    ) -> Callable[..., Any]:
        import tensorflow as tf

        shapes = [array.shape for array in arrays]
        if not self.with_xla:
            shapes = [(None,) * len(shape) for shape in shapes]
        key = (function, *shapes, *options.values())
        with self._lock:
            if key not in self._graphs:
                self._graphs[key] = tf.function(
                    functools.partial(function, **options),
                    input_signature=[
                        tf.TensorSpec(shape, array.dtype)
                        for shape, array in zip(shapes, arrays, strict=True)
                    ],
                    autograph=False,
                    jit_compile=self.with_xla or None,
                )
        return self._graphs[key]


def pad_ids(
    rows: Sequence[Sequence[int]],
    padding_id: int,
    max_length: int | None = None,
    *,
    jit_compile: JitCompile = "auto",
) -> np.ndarray:
    """Pad rows of ids to an array. With XLA, round the shape up to limit the number of shapes.

    Args:
        rows: the ids of each row.
        padding_id: id of the padding token.
        max_length: number of positions in the model, the maximum row length; None if unlimited.
        jit_compile: see `compiles_with_xla`.

    Returns:
        int32 array (batch, length) with one row for each of `rows`. With XLA, padding rows are
        added until the number of rows is a power of 2, and `length` is a multiple of 8, or
        `max_length`.

    Example:
        >>> pad_ids([[5, 4], [3]], padding_id=0)[:2, :2].tolist()
        [[5, 4], [3, 0]]
    """
    num_rows, length = len(rows), max(1, *map(len, rows))
    if compiles_with_xla(jit_compile):
        num_rows = 1 << (num_rows - 1).bit_length()
        length = min(-(-length // 8) * 8, max_length or sys.maxsize)
    array = np.full((num_rows, length), padding_id, dtype="int32")
    for row, ids in zip(array, rows, strict=False):
        row[: len(ids)] = ids
    return array


# Large batches reduce the overhead per step. With XLA, all sentences stay in the batch until the
# longest output ends, so smaller batches of similar lengths are faster.
BATCH_SIZE = 128
BATCH_SIZE_WITH_XLA = 32
FULL_BATCH_LENGTH = 64  # longer sentences get smaller batches
# A model's vocabulary may be padded to a multiple of 8.
MOST_PADDING = 7

Item = TypeVar("Item")
Result = TypeVar("Result")


def default_batch_size(jit_compile: JitCompile = "auto") -> int:
    """Return the default maximum number of sentences per batch; see also `compiles_with_xla`."""
    return BATCH_SIZE_WITH_XLA if compiles_with_xla(jit_compile) else BATCH_SIZE


def calls_at_once(jit_compile: JitCompile = "auto") -> int:
    """Return the number of batches to run in parallel.

    A search step consists of many operations that are too small to use all cores. TensorFlow on a
    CPU therefore runs two batches in parallel, or more if each operation uses fewer than half of
    the cores. GPUs run batches sequentially anyway. XLA also runs them sequentially, because it
    compiles each step into a few operations.
    """
    on_tensorflow = keras.backend.backend() == "tensorflow"
    if not on_tensorflow or compiles_with_xla(jit_compile) or has_accelerator():
        return 1
    import tensorflow as tf

    cores = num_cores()
    chosen = tf.config.threading.get_intra_op_parallelism_threads()
    threads = chosen or int(os.environ.get(THREADS) or 0) or cores  # threads per operation
    return min(MOST_AT_ONCE, cores, max(2, cores // threads))


def call_at_once(
    function: Callable[[Item], Result], items: Iterable[Item], at_once: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, running up to `at_once` calls in threads.

    Results come in the order in which the calls end, so a long call does not delay the next ones.

    Example:
        >>> sorted(call_at_once(len, ["one", "three"], at_once=2))
        [('one', 3), ('three', 5)]
    """
    if at_once == 1:
        yield from ((item, function(item)) for item in items)
        return
    items = iter(items)
    with ThreadPoolExecutor(at_once) as threads:

        def started(number: int) -> dict[Future[Result], Item]:
            return {
                threads.submit(function, item): item for item in itertools.islice(items, number)
            }

        running = started(at_once)
        while running:
            ended = wait(running, return_when=FIRST_COMPLETED).done
            found = [(running.pop(call), call) for call in ended]
            running |= started(len(found))
            yield from ((item, call.result()) for item, call in found)


class RowGenerator:
    """Runs a `SequenceGenerator` on rows of ids without BOS or EOS.

    The methods yield row indices with their results, batch by batch. The options apply to search
    and sampling; the shortlist applies only to search. Several models form an ensemble. Calls
    always use the current weights.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        source_tokenizer: SentencePieceTokenizer,
        tokenizer: SentencePieceTokenizer,
        options: SearchOptions,
        batch_size: int,
        jit_compile: JitCompile = "auto",
        shortlist: Shortlist | None = None,
    ) -> None:
        if not models:
            refuse("model", "be one or several models", models)
        first = models[0]
        if first.is_causal:
            raise ValueError(
                "`model` must come from `build_transformer`. Received: a language model"
            )
        _check_fit("source", source_tokenizer, first.source_vocabulary_size, first.padding_id)
        _check_fit("target", tokenizer, first.vocabulary_size, first.padding_id)
        _check_shortlist(shortlist, source_tokenizer, tokenizer)
        self._shortlist = shortlist
        self._source_eos = source_tokenizer.special_tokens.eos
        self._tokens = tokenizer.special_tokens
        self._options = options
        self._batch_size = batch_size
        # Attention cache size for one token of one hypothesis.
        self._bytes = sum(
            2 * 4 * model.options.num_decoder_layers * model.options.hidden_dim
            for model in models
            if model.options.decoder_unit == "attention"
        )
        self._call = GraphCalls(models, jit_compile)
        self._with_xla = self._call.with_xla
        self._generator = SequenceGenerator(
            models, self._tokens, tokenizer.vocabulary_size, jit_compile=self._with_xla
        )
        self._tokenizer = tokenizer
        self.max_length = self._generator.model.max_length  # None if unlimited
        self.graph: LiteRTGraph | None = None  # for searches of a few rows

    def batches(self, rows: Rows) -> list[list[int]]:
        """Return the indices of nonempty rows, grouped into the batches that a search uses."""
        return list(self._batches_to_generate(rows, self._options.beam_size, progress=False))

    def search(
        self,
        rows: Rows,
        prefix_rows: Rows,
        num_results: int,
        progress: bool = False,
        terms: Sequence[Sequence[TermForm]] | None = None,
    ) -> Iterator[tuple[int, Rows | np.ndarray, list[float]]]:
        """Yield `(index, ids, scores)` for each nonempty row, with the best output first.

        Each output starts with the prefix of its row and contains its terms. A row without finite
        scores raises a `UserInputError`.
        """
        if self.graph is not None and num_results == 1 and not any([*prefix_rows, *(terms or ())]):
            found = self.graph.search(rows, progress)
            if found is not None:
                yield from found
                return
        options = dataclasses.replace(self._options, num_results=num_results)
        terms = [()] * len(rows) if terms is None else terms
        for i, (row, prefix, forms) in enumerate(zip(rows, prefix_rows, terms, strict=True)):
            self._check_terms(i, len(row), len(prefix), forms)
        # Rows with more terms need more hypotheses, and rows without terms need no constraints.
        numbers = [hypotheses_of(forms, options.beam_size) for forms in terms]
        if any(numbers):
            self._generator.token_flags = self._token_flags

        def search(indices, source_ids, prefix_ids):
            number, array = numbers[indices[0]], None
            if number is not None:
                own = [terms[i] for i in indices]
                own = [*own, *[()] * (len(source_ids) - len(own))]
                array = array_of_terms(own, few_shapes=self._with_xla)
            candidate_ids = self._candidates(source_ids, prefix_ids, array)
            return self._call(
                self._generator.search,
                source_ids,
                prefix_ids,
                candidate_ids,
                array,
                options=options,
                # Without XLA, one graph serves all numbers.
                num_hypotheses=number if self._with_xla else None,
            )

        for number in sorted(set(numbers), key=lambda number: number or 0):
            chosen = [row if own == number else [] for row, own in zip(rows, numbers, strict=True)]
            hypotheses = number or options.beam_size
            # As many hypotheses in a batch as without terms.
            most = max(1, self._batch_size * options.beam_size // hypotheses)
            yield from self._generate(search, chosen, prefix_rows, hypotheses, progress, most)

    @functools.cached_property
    def _token_flags(self) -> np.ndarray:
        return token_flags(self._tokenizer, self._generator.model.vocabulary_size)

    def _check_terms(
        self, index: int, num_tokens: int, prefix_length: int, forms: Sequence[TermForm]
    ) -> None:
        """Require that the terms of a row fit into its output."""
        needed = tokens_needed(forms)
        limit = num_tokens + self._options.extra_length
        if self.max_length is not None:
            limit = min(limit, self.max_length - 1)
        if num_tokens and needed and needed + prefix_length > limit:
            raise UserInputError(
                f"The terms of sentence {index + 1:,} must fit into its translation: raise "
                f"`extra_length`. Received: {needed:,} tokens, of {limit:,}"
            )

    def search_alphas(
        self, rows: Rows, alphas: Sequence[float], progress: bool = False
    ) -> Iterator[tuple[int, np.ndarray, list[float]]]:
        """Yield `(index, ids, scores)` for each nonempty row, with the best output for each alpha.

        A row without finite scores raises a `UserInputError`.
        """

        def search_alphas(indices, source_ids, _):
            inputs = source_ids, self._candidates(source_ids)
            return self._call(
                self._search_alphas, *inputs, alphas=tuple(alphas), options=self._options
            )

        prefixes: Rows = [[]] * len(rows)
        return self._generate(search_alphas, rows, prefixes, self._options.beam_size, progress)

    def _search_alphas(
        self,
        source_ids: Tensor,
        candidate_ids: Tensor | None,
        *,
        alphas: Sequence[float],
        **how: Any,
    ) -> tuple[Tensor, Tensor]:
        return self._generator.search_alphas(source_ids, alphas, candidate_ids, **how)

    def _candidates(
        self,
        source_ids: np.ndarray,
        prefix_ids: np.ndarray | None = None,
        terms: np.ndarray | None = None,
    ) -> np.ndarray | None:
        """Return the shortlist candidates for a batch, or None without a shortlist."""
        if self._shortlist is None:
            return None
        if terms is not None:  # the tokens of terms become candidates, like those of prefixes
            tokens = terms[:, :, FIRST_TOKEN:].reshape(len(terms), -1)
            tokens = np.where(tokens < 0, self._tokens.pad, tokens)
            gap = np.argmax(self._token_flags)
            tokens = np.pad(tokens, ((0, 0), (0, 1)), constant_values=gap)
            prefix_ids = tokens if prefix_ids is None else np.hstack([prefix_ids, tokens])
        return self._shortlist.candidates(source_ids, prefix_ids, in_few_sizes=self._with_xla)

    def sample(
        self,
        rows: Rows,
        prefix_rows: Rows,
        num_samples: int,
        *,
        seed: int,
        first_index: int,
        progress: bool = False,
        **filters: float | None,
    ) -> Iterator[tuple[int, np.ndarray, list[float]]]:
        """Yield `(index, ids, log_probs)` with the samples for each nonempty row.

        Samples depend on the seed and the row index, which starts at `first_index`. The filters are
        the `temperature`, `top_k` and `top_p` arguments of `SequenceGenerator.sample`.
        """
        check_non_negative_int("seed", seed)
        check_non_negative_int("first_index", first_index)

        def sample(indices, source_ids, prefix_ids):
            length = source_ids.shape[1] + self._options.extra_length
            if prefix_ids is not None:
                length = max(length, prefix_ids.shape[1] + 1)
            uniforms = np.zeros((len(source_ids), num_samples, length), "float32")
            for row, i in zip(uniforms, indices, strict=False):
                for j in range(num_samples):  # a separate random stream for each sample
                    generator = np.random.default_rng([seed, first_index + i, j])
                    row[j] = generator.random(length, dtype="float32")
            inputs = source_ids, uniforms, prefix_ids
            return self._call(self._generator.sample, *inputs, options=self._options, **filters)

        return self._generate(sample, rows, prefix_rows, num_samples, progress)

    def score(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, float]]:
        """Yield `(index, log_prob)` for each pair of rows, including EOS.

        NaN raises a `UserInputError`. Targets that a search can never produce may score -inf.
        """
        for indices, *inputs in self._batches_of_pairs(source_rows, target_rows, progress):
            labels = self._pad([[*target_rows[i], self._tokens.eos] for i in indices])
            log_probs = self._call(
                self._generator.score, *inputs, labels, renormalize=self._options.renormalize
            )
            log_probs = _without_nan(log_probs[: len(indices)])
            yield from zip(indices, log_probs.tolist(), strict=True)

    def alignment(
        self, source_rows: Rows, target_rows: Rows, progress: bool = False
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Yield `(index, weights)` for each pair: float32 (target tokens, source tokens + EOS).

        NaN raises a `UserInputError`.
        """
        for indices, *inputs in self._batches_of_pairs(source_rows, target_rows, progress):
            found = self._call(self._generator.alignment, *inputs)
            for i, weights in zip(indices, found, strict=False):
                weights = weights[: len(target_rows[i]), : len(source_rows[i]) + 1]
                yield i, _without_nan(weights)

    def _generate(
        self,
        generate: Callable[..., tuple[np.ndarray, np.ndarray]],
        rows: Rows,
        prefix_rows: Rows,
        num_hypotheses: int,
        progress: bool,
        most_rows: int | None = None,
    ) -> Iterator[tuple[int, np.ndarray, list[float]]]:
        """Run `generate(indices, source_ids, prefix_ids)` on batches; yield the result per row.

        A batch has at most `most_rows` rows, by default the batch size.
        """

        def generated(indices: list[int]) -> tuple[np.ndarray, np.ndarray]:
            prefix_ids = None
            if any(prefix_rows):
                prefix_ids = self._pad([prefix_rows[i] for i in indices])
            return generate(indices, self._source_ids(rows, indices), prefix_ids)

        batches = self._batches_to_generate(rows, num_hypotheses, progress, most_rows)
        for indices, found in call_at_once(generated, batches, calls_at_once(self._with_xla)):
            for i, ids, scores in zip(indices, *found, strict=False):
                is_output = np.isfinite(scores)
                if not is_output.any():
                    raise UserInputError(f"The {SCORES_NOT_FINITE}")
                yield i, ids[is_output], scores[is_output].tolist()

    def _batches_of_pairs(
        self, source_rows: Rows, target_rows: Rows, progress: bool
    ) -> Iterator[tuple[list[int], np.ndarray, np.ndarray]]:
        """Yield batches of pairs: their indices, encoder inputs and decoder inputs."""
        lengths = [1 + max(map(len, pair)) for pair in zip(source_rows, target_rows, strict=True)]
        for indices in self._batches_by_length(range(len(lengths)), lengths, progress):
            target_ids = self._pad([[self._tokens.bos, *target_rows[i]] for i in indices])
            yield indices, self._source_ids(source_rows, indices), target_ids

    def _batches_to_generate(
        self, rows: Rows, num_hypotheses: int, progress: bool, most_rows: int | None = None
    ) -> Iterator[list[int]]:
        not_empty = [i for i, row in enumerate(rows) if row]
        most = self._most_rows(max(map(len, rows), default=0), num_hypotheses)
        if most_rows is not None:
            most = min(most, most_rows)
        return self._batches_by_length(not_empty, [1 + len(row) for row in rows], progress, most)

    def _most_rows(self, length: int, num_hypotheses: int) -> int:
        """Return how many rows fit into memory even if their outputs reach the maximum length."""
        longest = min(length + self._options.extra_length, self.max_length or math.inf)
        needed = max(1, self._bytes * num_hypotheses * longest)
        if needed > machine_memory():
            raise UserInputError(
                f"`beam_size` or `extra_length` must be smaller: {num_hypotheses:,} hypotheses of "
                f"up to {longest:,} tokens take {needed / 1e9:,.1f} GB, and this machine has "
                f"{machine_memory() / 1e9:,.1f} GB of memory."
            )
        return int(machine_memory() // needed)

    def _batches_by_length(
        self, indices: Sequence[int], lengths: list[int], progress: bool, most: int | None = None
    ) -> Iterator[list[int]]:
        size = self._batch_size if most is None else min(self._batch_size, most)
        return batches_by_length(indices, lengths, size, progress, full_length=FULL_BATCH_LENGTH)

    def _source_ids(self, rows: Rows, indices: Sequence[int]) -> np.ndarray:
        return self._pad([[*rows[i], self._source_eos] for i in indices])

    def _pad(self, rows: Rows) -> np.ndarray:
        return pad_ids(rows, self._tokens.pad, self.max_length, jit_compile=self._with_xla)


def _without_nan(values: np.ndarray) -> np.ndarray:
    """Return the values unchanged; raise a `UserInputError` for NaN."""
    if np.isnan(values).any():
        raise UserInputError(f"The {SCORES_NOT_FINITE}")
    return values


def _check_shortlist(
    shortlist: Shortlist | None,
    source_tokenizer: SentencePieceTokenizer,
    tokenizer: SentencePieceTokenizer,
) -> None:
    """Require that the shortlist is None or was created for these tokenizers."""
    if shortlist is None:
        return
    if not isinstance(shortlist, Shortlist):
        rule = "be a `text.Shortlist`, or, with `Translator.load`, True"
        refuse("shortlist", rule, shortlist)
    own = shortlist.source_tokenizer.fingerprint, shortlist.tokenizer.fingerprint
    if own != (source_tokenizer.fingerprint, tokenizer.fingerprint):
        raise UserInputError("`shortlist` must be for the tokenizers of the model.")


def _check_fit(
    side: str,
    tokenizer: SentencePieceTokenizer,
    vocabulary_size: int,
    padding_id: int | None,
) -> None:
    """Require a tokenizer that matches the model's ids; the model's vocabulary may be padded."""
    if not 0 <= vocabulary_size - tokenizer.vocabulary_size <= MOST_PADDING:
        raise UserInputError(
            f"The {side} tokenizer must have the model's vocabulary. Received: "
            f"{tokenizer.vocabulary_size} pieces, {vocabulary_size} {side} tokens of the model"
        )
    if tokenizer.special_tokens.pad != padding_id:
        raise UserInputError(
            f"The {side} tokenizer must have the model's padding id. Received: "
            f"{tokenizer.special_tokens.pad}, {padding_id} of the model"
        )

"""The string-to-string signatures of an exported translator as TensorFlow graphs.

For the axes in the shape comments, see `guarded_generator.py`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.formats.format import (
    ALIGN_IDS,
    TOKENIZERS,
    TRANSLATE_IDS,
    TRANSLATE_IDS_WITH_TERMS,
)
from keras_transformer.formats.guarded_generator import GuardedGenerator
from keras_transformer.formats.saved_model.reader import vocabularies_of
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.tensorflow_alignment import TensorFlowWordAligner
from keras_transformer.text.tensorflow_sentencepiece import TensorFlowSentencePieceTokenizer
from keras_transformer.text.tensorflow_terms import TensorFlowTermEncoder
from keras_transformer.types import COUNT

# Maximum row length of each group except the last. Most sentences are in the first group.
BOUNDS = (64, 128)
NUM_GROUPS = len(BOUNDS) + 1

Found = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # ids, lengths and scores
_STRINGS = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None, None], tf.int32)
_LENGTHS = tf.TensorSpec([None], tf.int32)
_TERMS = tf.TensorSpec([None, None, None], tf.int32)


class TranslationSignatures(tf.Module):
    """Weights, vocabularies and graphs of an exported translator.

    Invalid UTF-8 is replaced with U+FFFD. For the handling of other invalid inputs, see
    `GuardedGenerator`. With `jit_compile`, XLA compiles the searches on the machine that runs them.
    """

    def __init__(
        self,
        models: Sequence[keras.Model],
        generator: GuardedGenerator,
        source_tokenizer: SentencePieceTokenizer,
        tokenizer: SentencePieceTokenizer,
        jit_compile: bool,
        terms: bool,
    ) -> None:
        super().__init__(name="translator")
        self._jit_compile = jit_compile
        self._generator = generator
        # Not `variables`, which would include the dropout seeds.
        self._weights = [weight.value for model in models for weight in model.weights]
        self._tokenizer = TensorFlowSentencePieceTokenizer(tokenizer.model_bytes)
        self._source_tokenizer = self._tokenizer
        if source_tokenizer.fingerprint != tokenizer.fingerprint:
            self._source_tokenizer = TensorFlowSentencePieceTokenizer(source_tokenizer.model_bytes)
        # Several signatures share these graphs, so the export contains each graph only once.
        search_best = self._search(num_results=1)
        self._search_best = self._search_nbest = self._by_length(search_best)
        num_results = generator.options.num_results or generator.options.beam_size
        if num_results > 1:
            self._search_nbest = self._by_length(self._search(num_results))
        if generator.aligns:
            self._align = self._by_length_of_pairs(generator.alignment)
            self._aligner = TensorFlowWordAligner(source_tokenizer, tokenizer)
        self._source_model, self._model = source_tokenizer.model_bytes, tokenizer.model_bytes
        self._has_terms = terms
        if terms:
            self._vocabularies = vocabularies_of(source_tokenizer, tokenizer)
            self._term_encoder = TensorFlowTermEncoder(tokenizer, self._tokenizer)
            self._search_terms = self._search_with_terms(search_best)

    def by_name(self) -> dict[str, Callable[..., Any]]:
        """Return all signatures by name, for `tf.saved_model.save`."""
        strings = {"inputs": _STRINGS}
        ids = {"input_ids": _IDS, "input_lengths": _LENGTHS}
        translate = _signature(self._translate, strings)
        signatures = {
            "serving_default": translate,
            "translate": translate,
            "translate_nbest": _signature(self._translate_nbest, strings),
            TRANSLATE_IDS: _signature(self._translate_ids, ids),
            "score": _signature(self._score, {"inputs": _STRINGS, "targets": _STRINGS}),
            "tokenize": _signature(self._tokenize, strings),
        }
        if self._has_terms:
            signatures |= {
                "translate_with_terms": _signature(
                    self._translate_with_terms, strings | {"terms": _STRINGS}
                ),
                TRANSLATE_IDS_WITH_TERMS: _signature(
                    self._translate_ids_with_terms, ids | {"terms": _TERMS}
                ),
            }
        if self._generator.aligns:
            targets = {"target_ids": _IDS, "target_lengths": _LENGTHS}
            signatures[ALIGN_IDS] = _signature(self._align_ids, ids | targets)
        if self._has_terms or self._generator.aligns:
            signatures[TOKENIZERS] = _signature(self._tokenizer_models, strings)
        return signatures

    def _translate(self, inputs):
        return _best(self._found_texts(self._search_best, inputs))

    def _translate_nbest(self, inputs):
        return self._found_texts(self._search_nbest, inputs)

    def _translate_ids(self, input_ids, input_lengths):
        input_ids = _with_as_many(input_ids, "input_ids", input_lengths, "input_lengths")
        return self._found_ids(self._search_best, input_ids, input_lengths)

    def _translate_with_terms(self, inputs, terms):
        inputs = _with_as_many(inputs, "inputs", terms, "terms")
        terms = tf.strings.unicode_transcode(terms, "UTF-8", "UTF-8", errors="replace")
        forms = self._term_encoder.forms(terms)
        return _best(self._found_texts(self._search_terms, inputs, forms))

    def _translate_ids_with_terms(self, input_ids, input_lengths, terms):
        input_ids = _with_as_many(input_ids, "input_ids", input_lengths, "input_lengths")
        input_ids = _with_as_many(input_ids, "input_ids", terms, "terms")
        found = self._found_ids(self._search_terms, input_ids, input_lengths, terms)
        return found | {"vocabularies": tf.fill(tf.shape(input_lengths), self._vocabularies)}

    def _found_ids(self, search, input_ids, input_lengths, *terms):
        """Return the outputs of a signature that maps ids to ids."""
        ids, lengths, scores = search(input_ids, input_lengths, *terms)
        found = {"output_ids": ids[:, 0], "output_lengths": lengths[:, 0], "scores": scores[:, 0]}
        if self._generator.aligns:
            target = found["output_ids"], found["output_lengths"]
            found["alignments"] = self._align(input_ids, input_lengths, *target)
        return found

    def _found_texts(self, search, inputs, *terms):
        """Return the outputs of a signature that maps strings to strings, (batch, n)."""
        source = self._encode(inputs, self._source_tokenizer)
        ids, lengths, scores = search(*source, *terms)
        found = {"outputs": self._decode(ids, lengths), "scores": scores}
        if self._generator.aligns:
            found["alignments"] = self._links(source, found["outputs"])
        return found

    def _links(self, source, outputs):
        """Return the links of words, in Pharaoh format, of sources and outputs (batch, n)."""
        source = [tf.repeat(each, outputs.shape[1], axis=0) for each in source]
        # The tokens of the text, as in `Translator.align`, may differ from those that were found.
        target = self._encode(tf.reshape(outputs, [-1]), self._tokenizer)
        weights = self._align(*source, *target)
        links = self._aligner.pharaoh(self._generator.source(*source), target[0], weights)
        return tf.reshape(links, tf.shape(outputs))

    def _align_ids(self, input_ids, input_lengths, target_ids, target_lengths):
        input_ids = _with_as_many(input_ids, "input_ids", input_lengths, "input_lengths")
        input_ids = _with_as_many(input_ids, "input_ids", target_ids, "target_ids")
        target_ids = _with_as_many(target_ids, "target_ids", target_lengths, "target_lengths")
        weights = self._align(input_ids, input_lengths, target_ids, target_lengths)
        return {"alignments": weights}

    def _tokenizer_models(self, inputs):
        models = tf.where(inputs == "source", self._source_model, self._model)
        return {"models": tf.io.encode_base64(models, pad=True)}

    def _score(self, inputs, targets):
        inputs = _with_as_many(inputs, "inputs", targets, "targets")
        source = self._encode(inputs, self._source_tokenizer)
        target = self._encode(targets, self._tokenizer)
        return {"log_probs": self._generator.score(*source, *target)}

    def _tokenize(self, inputs):
        ids, lengths = self._encode(inputs, self._source_tokenizer)
        return {"ids": ids, "lengths": lengths}

    def _search(self, num_results: int) -> Callable[..., Any]:
        def search(input_ids, input_lengths):
            return self._generator.search(input_ids, input_lengths, num_results)

        # One graph for all length groups and signatures.
        if self._jit_compile:
            search = self._compiled_search(num_results)
        return tf.function(search, input_signature=[_IDS, _LENGTHS], autograph=False)

    def _by_length(self, search: Callable[..., Any]) -> Callable[..., Any]:
        """Return a search that is called for each length group."""

        def search_all(input_ids, input_lengths):
            return search_groups(
                [search] * NUM_GROUPS,
                group_by_length(input_lengths),
                (input_ids, input_lengths),
                padding=self._generator.tokens.pad,
            )

        return tf.function(search_all, input_signature=[_IDS, _LENGTHS], autograph=False)

    def _by_length_of_pairs(self, align: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that aligns the pairs of each length group on their own."""
        inputs = [_IDS, _LENGTHS] * 2
        align_group = tf.function(
            lambda *pairs: (align(*pairs),), input_signature=inputs, autograph=False
        )

        def align_all(input_ids, input_lengths, target_ids, target_lengths):
            (weights,) = search_groups(
                [align_group] * NUM_GROUPS,
                group_by_length(tf.maximum(input_lengths, target_lengths)),
                (input_ids, input_lengths, target_ids, target_lengths),
                padding=0,
            )
            return weights

        return tf.function(align_all, input_signature=inputs, autograph=False)

    def _search_with_terms(self, search_best: Callable[..., Any]) -> Callable[..., Any]:
        """Return a search with terms. Rows without terms use `search_best`."""
        inputs = [_IDS, _LENGTHS, _TERMS]

        def search(input_ids, input_lengths, terms):
            return self._generator.search(input_ids, input_lengths, terms=terms)

        search = tf.function(search, input_signature=inputs, autograph=False)

        def search_all(input_ids, input_lengths, terms):
            has_terms = tf.reduce_any(terms[:, :, COUNT] > 0, axis=1)  # (batch,)
            # No length groups: the first request takes longer with each call of a search.
            return search_groups(
                [lambda ids, lengths, _: search_best(ids, lengths), search],
                tf.cast(has_terms, tf.int32),
                (input_ids, input_lengths, terms),
                padding=self._generator.tokens.pad,
            )

        return tf.function(search_all, input_signature=inputs, autograph=False)

    def _compiled_search(self, num_results: int) -> Callable[..., Found]:
        """Return a search graph for all shapes, which XLA compiles once per padded shape."""
        generator, pad = self._generator, self._generator.source_tokens.pad
        compiled = tf.function(
            functools.partial(generator.search_sources, num_results=num_results),
            input_signature=[_IDS],
            autograph=False,
            jit_compile=True,
        )

        def search(input_ids, input_lengths):
            source_ids = generator.source(input_ids, input_lengths)
            num_rows, length = tf.unstack(tf.shape(source_ids))
            output_length = length + generator.options.extra_length

            def found() -> Found:
                padded = pad_to_few_shapes(source_ids, generator.options.max_source_length, pad)
                ids, lengths, scores = compiled(padded)
                return ids[:num_rows, :, :output_length], lengths[:num_rows], scores[:num_rows]

            def nothing() -> Found:
                places = tf.zeros([0, num_results], tf.int32)
                ids = tf.zeros([0, num_results, output_length], tf.int32)
                return ids, places, tf.cast(places, tf.float32)

            return tf.cond(num_rows > 0, found, nothing)

        return search

    def _encode(self, sentences, tokenizer):
        """Return padded ids (batch, length) without EOS, and the length of each row (batch,)."""
        sentences = tf.strings.unicode_transcode(
            sentences, input_encoding="UTF-8", output_encoding="UTF-8", errors="replace"
        )
        rows = tokenizer.tokenize(sentences)
        lengths = tf.cast(rows.row_lengths(), tf.int32)
        return rows.to_tensor(self._generator.source_tokens.pad), lengths

    def _decode(self, ids, lengths):
        """Decode the first `lengths` (batch, n) of ids (batch, n, output) to strings (batch, n)."""
        batch_size, num_results, output_length = tf.unstack(tf.shape(ids))
        rows = tf.reshape(ids, [batch_size * num_results, output_length])
        rows = tf.RaggedTensor.from_tensor(rows, lengths=tf.reshape(lengths, [-1]))
        return tf.reshape(self._tokenizer.detokenize(rows), [batch_size, ids.shape[1]])


def _best(found: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Return the first result of each row."""
    return {name: values[:, 0] for name, values in found.items()}


def _with_as_many(tensor: tf.Tensor, name: str, other: tf.Tensor, other_name: str) -> tf.Tensor:
    """Return a tensor with a check that another input has the same number of rows."""
    sizes = tf.shape(tensor)[0], tf.shape(other)[0]
    check = tf.debugging.assert_equal(
        *sizes, message=f"`{name}` and `{other_name}` must have the same number of rows."
    )
    with tf.control_dependencies([check]):
        return tf.identity(tensor)


def _signature(
    function: Callable[..., Any], inputs: Mapping[str, tf.TensorSpec]
) -> Callable[..., Any]:
    """Return a graph whose inputs have the given names and shapes."""
    specs = [tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in inputs.items()]
    return tf.function(function, input_signature=specs, autograph=False)


def pad_to_few_shapes(ids: tf.Tensor, max_length: int, padding_id: int) -> tf.Tensor:
    """Pad ids to one of a few shapes, because XLA compiles separately for each shape.

    Args:
        ids: int32 (batch, length), with at least one row.
        max_length: maximum value of `length`.
        padding_id: id used to pad the rows.

    Returns:
        int32 (rows, columns). `rows` is a power of 2; `columns` is a multiple of 8 or `max_length`.
    """
    num_rows, length = tf.unstack(tf.shape(ids))
    powers = tf.constant([1 << exponent for exponent in range(31)], tf.int32)
    rows = tf.reduce_min(tf.where(powers >= num_rows, powers, powers[-1]))
    columns = tf.minimum((length + 7) // 8 * 8, max_length)
    paddings = [[0, rows - num_rows], [0, columns - length]]
    return tf.pad(ids, paddings, constant_values=padding_id)


def group_by_length(lengths: tf.Tensor) -> tf.Tensor:
    """Return the number of the length group of each row: int32 (batch,)."""
    return tf.reduce_sum([tf.cast(lengths > bound, tf.int32) for bound in BOUNDS], axis=0)


def search_groups(
    searches: Sequence[Callable[..., tuple[tf.Tensor, ...]]],
    group: tf.Tensor,
    inputs: Sequence[tf.Tensor],
    padding: int,
) -> tuple[tf.Tensor, ...]:
    """Call a search for each group of rows, so that short rows do not wait for long ones.

    A search runs until the longest output of the batch ends, with caches sized for the longest
    source. A single long row would make a batch of short rows as expensive as a batch of long rows.

    Args:
        searches: for each group, a function that maps the inputs of its rows to tensors (batch,
            ...), such as a `Found`.
        group: int32 (batch,), the number of each row's group.
        inputs: ids int32 (batch, length), lengths int32 (batch,), and other tensors (batch, ...).
        padding: value used to pad results of different sizes.

    Returns:
        The results of the searches in the original row order.
    """
    input_ids, input_lengths, *others = inputs
    lengths = tf.minimum(tf.maximum(input_lengths, 0), tf.shape(input_ids)[1])  # (batch,)
    rows, found = [], []
    for number, search in enumerate(searches):
        rows.append(tf.cast(tf.where(tf.equal(group, number))[:, 0], tf.int32))
        lengths_of_group = tf.gather(lengths, rows[-1])
        longest = tf.maximum(tf.reduce_max(lengths_of_group), 0)
        ids_of_group = tf.gather(input_ids, rows[-1])[:, :longest]
        others_of_group = [tf.gather(each, rows[-1]) for each in others]
        found.append(search(ids_of_group, lengths_of_group, *others_of_group))
    place = _inverse(tf.concat(rows, axis=0))  # (batch,)
    return tuple(
        tf.gather(tf.concat(_equally_large(results, padding), axis=0), place)
        for results in zip(*found, strict=True)
    )


def _equally_large(arrays: Sequence[tf.Tensor], padding: int) -> Sequence[tf.Tensor]:
    """Pad arrays (batch, ...) to the size of the largest array."""
    rank = arrays[0].shape.rank
    for axis in range(1, rank):
        known = {array.shape[axis] for array in arrays}
        if len(known) == 1 and None not in known:
            continue
        sizes = [tf.shape(array)[axis] for array in arrays]
        largest = tf.reduce_max(tf.stack(sizes))
        before, after = [[0, 0]] * axis, [[0, 0]] * (rank - axis - 1)
        arrays = [
            tf.pad(
                array,
                [*before, [0, largest - size], *after],
                constant_values=tf.cast(padding, array.dtype),
            )
            for array, size in zip(arrays, sizes, strict=True)
        ]
    return arrays


def _inverse(permutation: tf.Tensor) -> tf.Tensor:
    """Return the inverse of a permutation of 0, 1, 2, ..."""
    number = tf.shape(permutation)
    return tf.scatter_nd(permutation[:, tf.newaxis], tf.range(number[0]), number)

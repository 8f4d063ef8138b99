"""The string-to-string signatures of an exported translator as TensorFlow graphs.

For the axes in the shape comments, see `guarded_generator.py`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.formats.guarded_generator import GuardedGenerator
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.tensorflow_sentencepiece import TensorFlowSentencePieceTokenizer

# Maximum row length of each group except the last. Most sentences are in the first group.
BOUNDS = (64, 128)

Found = tuple[tf.Tensor, tf.Tensor, tf.Tensor]  # ids, lengths and scores
_STRINGS = tf.TensorSpec([None], tf.string)
_IDS = tf.TensorSpec([None, None], tf.int32)
_LENGTHS = tf.TensorSpec([None], tf.int32)


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
        self._search_best = self._search(num_results=1)
        self._search_nbest = self._search_best
        num_results = generator.options.num_results or generator.options.beam_size
        if num_results > 1:
            self._search_nbest = self._search(num_results)

    def by_name(self) -> dict[str, Callable[..., Any]]:
        """Return all signatures by name, for `tf.saved_model.save`."""
        strings = {"inputs": _STRINGS}
        ids = {"input_ids": _IDS, "input_lengths": _LENGTHS}
        translate = _signature(self._translate, strings)
        return {
            "serving_default": translate,
            "translate": translate,
            "translate_nbest": _signature(self._translate_nbest, strings),
            "translate_ids": _signature(self._translate_ids, ids),
            "score": _signature(self._score, {"inputs": _STRINGS, "targets": _STRINGS}),
            "tokenize": _signature(self._tokenize, strings),
        }

    def _translate(self, inputs):
        ids, lengths, scores = self._search_best(*self._encode(inputs, self._source_tokenizer))
        return {"outputs": self._decode(ids, lengths)[:, 0], "scores": scores[:, 0]}

    def _translate_nbest(self, inputs):
        ids, lengths, scores = self._search_nbest(*self._encode(inputs, self._source_tokenizer))
        return {"outputs": self._decode(ids, lengths), "scores": scores}

    def _translate_ids(self, input_ids, input_lengths):
        input_ids = _with_as_many(input_ids, "input_ids", input_lengths, "input_lengths")
        ids, lengths, scores = self._search_best(input_ids, input_lengths)
        return {"output_ids": ids[:, 0], "output_lengths": lengths[:, 0], "scores": scores[:, 0]}

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
        search = tf.function(search, input_signature=[_IDS, _LENGTHS], autograph=False)

        def search_all(input_ids, input_lengths):
            return search_by_length(search, input_ids, input_lengths, self._generator.tokens.pad)

        return tf.function(search_all, input_signature=[_IDS, _LENGTHS], autograph=False)

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


def search_by_length(
    search: Callable[[tf.Tensor, tf.Tensor], Found],
    input_ids: tf.Tensor,
    input_lengths: tf.Tensor,
    padding_id: int,
) -> Found:
    """Call `search` separately for each length group, so that short rows do not wait for long ones.

    A search runs until the longest output of the batch ends, with caches sized for the longest
    source. A single long row would make a batch of short rows as expensive as a batch of long rows.

    Args:
        search: function that maps ids (batch, length) and lengths (batch,), which may be 0, to ids
            int32 (batch, n, output), lengths int32 (batch, n) and scores float32 (batch, n).
        input_ids: int32 (batch, length).
        input_lengths: int32 (batch,), number of tokens in each row.
        padding_id: id used to pad the outputs.

    Returns:
        The results of `search` in the original row order.
    """
    lengths = tf.minimum(tf.maximum(input_lengths, 0), tf.shape(input_ids)[1])  # (batch,)
    group = sum(tf.cast(lengths > bound, tf.int32) for bound in BOUNDS)  # (batch,)
    rows, found = [], []
    for number in range(len(BOUNDS) + 1):
        rows.append(tf.cast(tf.where(tf.equal(group, number))[:, 0], tf.int32))
        lengths_of_group = tf.gather(lengths, rows[-1])
        longest = tf.maximum(tf.reduce_max(lengths_of_group), 0)
        ids_of_group = tf.gather(input_ids, rows[-1])[:, :longest]
        found.append(search(ids_of_group, lengths_of_group))
    place = _inverse(tf.concat(rows, axis=0))  # (batch,)
    ids, output_lengths, scores = zip(*found, strict=True)
    ids = tf.concat(_equally_long(ids, padding_id), axis=0)
    return tuple(
        tf.gather(values, place)
        for values in (ids, tf.concat(output_lengths, axis=0), tf.concat(scores, axis=0))
    )


def _equally_long(arrays: Sequence[tf.Tensor], padding_id: int) -> list[tf.Tensor]:
    """Pad arrays (batch, n, output) to the length of the longest array."""
    lengths = [tf.shape(array)[2] for array in arrays]
    longest = tf.reduce_max(tf.stack(lengths))
    return [
        tf.pad(array, [[0, 0], [0, 0], [0, longest - length]], constant_values=padding_id)
        for array, length in zip(arrays, lengths, strict=True)
    ]


def _inverse(permutation: tf.Tensor) -> tf.Tensor:
    """Return the inverse of a permutation of 0, 1, 2, ..."""
    number = tf.shape(permutation)
    return tf.scatter_nd(permutation[:, tf.newaxis], tf.range(number[0]), number)

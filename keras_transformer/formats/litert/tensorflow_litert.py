"""The signatures of a LiteRT model as TensorFlow functions and their conversion to LiteRT."""

import contextlib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras import ops

from keras_transformer.decoding.next_tokens import OutputRules
from keras_transformer.decoding.sentence_loop import reorder
from keras_transformer.formats.format import (
    ALIGN_IDS,
    NO_SCORE,
    TRANSLATE_IDS,
    TRANSLATE_IDS_WITH_TERMS,
    TRANSLATE_ONE,
)
from keras_transformer.formats.guarded_generator import GuardedGenerator
from keras_transformer.formats.imported_models import float32_copy
from keras_transformer.models import Transformer
from keras_transformer.runs.model_weights import rounded_to_int8
from keras_transformer.types import PathLike

ConcreteFunction: TypeAlias = tf.types.experimental.ConcreteFunction


def _source_inputs(batch_size: int | None) -> list[tf.TensorSpec]:
    return [
        tf.TensorSpec([batch_size, None], tf.int32, "input_ids"),
        tf.TensorSpec([batch_size], tf.int32, "input_lengths"),
    ]


_SOURCE_INPUTS = _source_inputs(None)


def signatures(
    generator: GuardedGenerator, vocabulary_size: int, terms: bool
) -> dict[str, ConcreteFunction]:
    """Return the signatures of a LiteRT model by name.

    Args:
        generator: the graph of the search.
        vocabulary_size: number of tokens, without vocabulary padding.
        terms: whether to include the signature for translations with terms.
    """
    steps = StepSignatures(generator, vocabulary_size)

    def translate_ids(input_ids, input_lengths, terms=None):
        """Run the complete search and return the best translation of each row of ids."""
        ids, lengths, scores = generator.search(input_ids, input_lengths, terms=terms)
        found = {"output_ids": ids[:, 0], "output_lengths": lengths[:, 0], "scores": scores[:, 0]}
        if generator.aligns:
            target = found["output_ids"], found["output_lengths"]
            found["alignments"] = generator.alignment(input_ids, input_lengths, *target)
        return found

    functions = {
        TRANSLATE_IDS: _concrete(translate_ids, _SOURCE_INPUTS),
        # A graph for any number of sentences computes their shapes at each step.
        TRANSLATE_ONE: _concrete(translate_ids, _source_inputs(1)),
        "encode": steps.encode,
        "step": steps.step,
    }
    if terms:
        spec = tf.TensorSpec([None, None, None], tf.int32, "terms")
        functions[TRANSLATE_IDS_WITH_TERMS] = _concrete(translate_ids, [*_SOURCE_INPUTS, spec])
    if generator.aligns:
        targets = [
            tf.TensorSpec([None, None], tf.int32, "target_ids"),
            tf.TensorSpec([None], tf.int32, "target_lengths"),
        ]
        functions[ALIGN_IDS] = _concrete(
            lambda *pairs: {"alignments": generator.alignment(*pairs)}, [*_SOURCE_INPUTS, *targets]
        )
    return functions


@contextlib.contextmanager
def int8_rows(models: Sequence[keras.Model]) -> Iterator[None]:
    """Round embeddings to int8 and look tokens up in these integers, with a divisor for each token.

    The converter would store a table for the lookup with a single divisor, next to the table of
    the logits. Afterwards, the models are as before.
    """
    sides = [
        side
        for model in map(Transformer.of, models)
        for side in (model.source_embedding, model.target_embedding)
        if side is not None
    ]
    layers: list[Any] = list({id(side): side.token_embedding for side in sides}.values())
    matrices = [float32_copy(layer.matrix) for layer in layers]
    try:
        for layer, matrix in zip(layers, matrices, strict=True):
            values, scale = rounded_to_int8(matrix, by_rows=True)
            layer.matrix.assign(values / scale)
            factors = tf.constant(1 / scale)
            layer.rows = functools.partial(_rows, tf.constant(values), factors)
        yield
    finally:
        for layer, matrix in zip(layers, matrices, strict=True):
            layer.matrix.assign(matrix)
            vars(layer).pop("rows", None)


def _rows(values: tf.Tensor, factors: tf.Tensor, ids: tf.Tensor) -> tf.Tensor:
    rows = tf.cast(tf.gather(values, ids), tf.float32)
    return rows * tf.gather(factors, ids)


def convert_signatures(
    functions: Mapping[str, ConcreteFunction],
    variables: Sequence[tf.Variable],
    precision: str,
    directory: PathLike,
) -> bytes:
    """Convert functions that share their variables to a LiteRT model.

    A SavedModel with all weights is left in `directory`, which must be empty.
    """
    module = tf.Module()
    module.weights = variables
    # The converter supports multiple signatures only for a SavedModel.
    tf.saved_model.save(module, directory, signatures=functions)
    converter = tf.lite.TFLiteConverter.from_saved_model(directory, signature_keys=list(functions))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
    if precision != "float32":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if precision == "float16":
        converter.target_spec.supported_types = [tf.float16]
    return converter.convert()


class StepSignatures:
    """The two concrete functions that an app needs to implement its own search.

    `encode` accepts
    - `input_ids`, int32 (batch, length), and `input_lengths`, int32 (batch,), as in
      `GuardedGenerator.source`;
    - `beam_size`, int32 scalar: number of hypotheses per sentence;
    - `cache_length`, int32 scalar: maximum number of tokens in a hypothesis, including BOS.
    It returns the state: `memory_0`, `memory_1`, ..., which remain constant, and `cache_0`,
    `cache_1`, ..., which `step` replaces.

    `step` accepts the state under the same names, and
    - `tokens`, int32 (batch, beam_size): the last token of each hypothesis, initially BOS;
    - `parents`, int32 (batch, beam_size): zero-based index of the previous hypothesis that each
      hypothesis continues; 0 in greedy search;
    - `index`, int32 scalar: zero-based position of `tokens`, less than `cache_length`.
    It returns the new `cache_...` tensors and `log_probs`, float32 (batch, beam_size,
    vocabulary_size): the natural-log probability of each next token, or `NO_SCORE` for forbidden
    tokens.

    Args:
        generator, vocabulary_size: as in `signatures`.
    """

    def __init__(self, generator: GuardedGenerator, vocabulary_size: int) -> None:
        self._generator = generator
        self._model = generator.model
        self._vocabulary_size = vocabulary_size
        lengths = [tf.TensorSpec([], tf.int32, name) for name in ("beam_size", "cache_length")]
        inputs = [*_SOURCE_INPUTS, *lengths]
        self._memory, self._cache = _concrete(self._start, inputs).structured_outputs
        self.encode = _concrete(self._encode, inputs)
        self.step = _concrete(self._step, self._step_inputs())

    def _start(self, input_ids, input_lengths, beam_size, cache_length):
        source_ids = self._generator.source(input_ids, input_lengths, even_empty=True)
        return self._model.start(source_ids, beam_size=beam_size, length=cache_length)

    def _encode(self, *inputs):
        memory, cache = self._start(*inputs)
        return _named("memory", memory) | _named("cache", cache)

    def _step(self, tokens, parents, index, *state):
        num_memory = len(keras.tree.flatten(self._memory))
        memory = keras.tree.pack_sequence_as(self._memory, list(state[:num_memory]))
        cache = keras.tree.pack_sequence_as(self._cache, list(state[num_memory:]))
        cache = reorder(cache, parents)
        logits, cache = self._model.step(tokens, index, memory, cache)
        return {"log_probs": self._log_probs(logits)} | _named("cache", cache)

    def _log_probs(self, logits):
        """Return the tokens' log-probabilities. The highest is never that of a forbidden token."""
        log_probs = ops.log_softmax(ops.cast(logits, "float32"), axis=-1)
        rules = OutputRules(None, self._generator.tokens, self._vocabulary_size)
        is_output = rules.is_output(ops.arange(self._vocabulary_size, dtype="int32"))
        return ops.where(is_output, log_probs[..., : self._vocabulary_size], NO_SCORE)

    def _step_inputs(self):
        state = _named("memory", self._memory) | _named("cache", self._cache)
        return [
            tf.TensorSpec([None, None], tf.int32, "tokens"),
            tf.TensorSpec([None, None], tf.int32, "parents"),
            tf.TensorSpec([], tf.int32, "index"),
            *(tf.TensorSpec(spec.shape, spec.dtype, name) for name, spec in state.items()),
        ]


def _concrete(function: Callable[..., Any], inputs: Sequence[tf.TensorSpec]) -> ConcreteFunction:
    """Trace a function for the tensors that `inputs` describes, without autograph."""
    return tf.function(function, autograph=False).get_concrete_function(*inputs)


def _named(name: str, nest: Any) -> dict[str, tf.Tensor]:
    """Return the tensors of a nested structure as a dict with keys name_0, name_1, ..."""
    return {f"{name}_{number}": value for number, value in enumerate(keras.tree.flatten(nest))}

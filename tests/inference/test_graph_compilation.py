"""Compiled calls of functions of batches, and the rows that they take."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.compiled_calls import compiles_with_xla
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.inference.row_generator import GraphCalls, pad_ids
from keras_transformer.models import build_transformer
from keras_transformer.search_options import SearchOptions

pytestmark = pytest.mark.core


def build(**overrides):
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 16}
    return build_transformer(
        "tiny", vocabulary_size=12, intermediate_dim=16, num_heads=2, **sizes, **overrides
    )


def source_ids(batch_size, length):
    ids = np.random.default_rng(length).integers(3, 12, (batch_size, length))
    ids[:, -1] = 2
    ids[:1, 1:] = 0
    return ids


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
@pytest.mark.parametrize("name", ["greedy", "beam", "score"])
def test_both_searches_and_the_score_run_compiled(dtype, name):
    model = build(dtype=dtype)
    model.run_eagerly = True  # a generator alone; it has no say in a graph
    generator = SequenceGenerator(model)
    ids = source_ids(3, 5)
    greedy = functools.partial(generator.search, options=SearchOptions(beam_size=1))
    function, inputs = {
        "greedy": (greedy, [ids]),
        "beam": (generator.search, [ids]),
        "score": (generator.score, [ids, ids[:, ::-1], ids]),
    }[name]
    compiled = keras.tree.flatten(GraphCalls([model])(function, *inputs))
    eager = keras.tree.flatten(function(*inputs))
    for actual, expected in zip(compiled, map(ops.convert_to_numpy, eager), strict=True):
        assert isinstance(actual, np.ndarray)
        assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
        assert np.isfinite(actual).all()
        if dtype == "float32":
            np.testing.assert_allclose(actual, expected, atol=1e-4)
        elif name == "score":  # a search takes other tokens where bfloat16 makes a tie
            np.testing.assert_allclose(actual, expected, atol=0.2)


@pytest.mark.tensorflow
def test_tensorflow_traces_one_graph_for_all_shapes():
    traces = []
    model = build()
    generator = SequenceGenerator(model)

    def search(ids):
        traces.append(ids.shape)
        return generator.search(ids, options=SearchOptions(extra_length=4))

    call = GraphCalls([model])
    for batch_size, length in [(1, 3), (4, 7), (2, 2), (0, 3)]:
        ids, scores = call(search, source_ids(batch_size, length))
        assert ids.shape == (batch_size, 4, length + 4)
        assert scores.shape == (batch_size, 4)
    assert len(traces) == 1


@pytest.mark.tensorflow
def test_with_xla_tensorflow_traces_one_graph_for_each_shape():
    traces = []
    call = GraphCalls([], jit_compile=True)

    def total(ids):
        traces.append(tuple(ids.shape))
        return ops.sum(ids, axis=1)

    for shape in [(2, 8), (4, 8), (2, 8), (2, 16)]:
        assert call(total, np.ones(shape, "int32")).tolist() == [shape[1]] * shape[0]
    assert traces == [(2, 8), (4, 8), (2, 16)]


def test_rows_are_padded_behind():
    padded = pad_ids([[5, 4, 3], [7], []], padding_id=9)
    assert padded.dtype == "int32"
    assert padded[:3, :3].tolist() == [[5, 4, 3], [7, 9, 9], [9, 9, 9]]
    assert (padded[3:] == 9).all()
    assert (padded[:, 3:] == 9).all()
    assert pad_ids([[], []], padding_id=0).shape[1] >= 1  # where every row is empty


@pytest.mark.parametrize("jit_compile", ["auto", True, False])
def test_xla_gets_few_shapes(jit_compile):
    def shapes(rows, lengths, max_length=None):
        arrays = [
            pad_ids([[1] * length] * rows, 0, max_length, jit_compile=jit_compile)
            for length in lengths
        ]
        return {array.shape for array in arrays}

    with_xla = compiles_with_xla(jit_compile)
    assert shapes(3, range(1, 9)) == ({(4, 8)} if with_xla else {(3, n) for n in range(1, 9)})
    assert shapes(1, range(9, 12), 11) == ({(1, 11)} if with_xla else {(1, 9), (1, 10), (1, 11)})

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.graph_compilation import compile_function
from keras_transformer.models import build_transformer
from keras_transformer.sequence_generation import SequenceGenerator

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


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-4), ("mixed_bfloat16", 0.2)])
def test_both_searches_and_the_score_run_compiled(dtype, tolerance):
    model = build(dtype=dtype)
    generator = SequenceGenerator(model)
    ids = source_ids(3, 5)
    functions = [
        (generator.greedy, [ids]),
        (generator.beam_search, [ids]),
        (generator.score, [ids, ids[:, ::-1], ids]),
    ]
    for function, inputs in functions:
        compiled = compile_function(function, len(inputs), model.variables)(*inputs)
        eager = keras.tree.map_structure(ops.convert_to_numpy, function(*inputs))
        assert all(isinstance(value, np.ndarray) for value in keras.tree.flatten(compiled))
        keras.tree.map_structure(
            functools.partial(np.testing.assert_allclose, atol=tolerance), compiled, eager
        )


def test_sees_changed_variables():
    variable = keras.Variable([1.0, 2.0])
    compiled = compile_function(lambda ids: ops.take(variable, ids, axis=0), 1, [variable])
    assert compiled(np.array([[1, 0]])).tolist() == [[2.0, 1.0]]
    variable.assign([3.0, 4.0])
    assert compiled(np.array([[1, 0]])).tolist() == [[4.0, 3.0]]


@pytest.mark.tensorflow
def test_tensorflow_traces_one_graph_for_all_shapes():
    traces = []
    model = build()
    generator = SequenceGenerator(model)

    def search(ids):
        traces.append(ids.shape)
        return generator.beam_search(ids, extra_length=4)

    compiled = compile_function(search, 1, model.variables)
    for batch_size, length in [(1, 3), (4, 7), (2, 2), (0, 3)]:
        ids, scores = compiled(source_ids(batch_size, length))
        assert ids.shape == (batch_size, 4, length + 4)
        assert scores.shape == (batch_size, 4)
    assert len(traces) == 1

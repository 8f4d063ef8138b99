"""Where XLA compiles, and searches that it compiles on TensorFlow as it does on JAX."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import TreeTokens
from keras_transformer.decoding.compiled_calls import CompiledCalls, compiles_with_xla
from keras_transformer.decoding.constraints import WellFormedTree
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.search_options import SearchOptions
from tests.decoding.small_trees import PIECES, TOKENS

pytestmark = pytest.mark.core

BACKEND = keras.backend.backend()
VOCABULARY_SIZE = 12
SHORT = {"beam_size": 3, "extra_length": 4}


def devices_are(monkeypatch, *kinds):
    devices = [f"{kind}:0" for kind in kinds]
    listed = lambda kind=None: [name for name in devices if name.startswith(kind or "")]  # noqa: E731
    monkeypatch.setattr(keras.distribution, "list_devices", listed)


@pytest.mark.parametrize("kinds", [("cpu",), ("cpu", "gpu"), ("cpu", "tpu")])
def test_xla_compiles_where_an_accelerator_is(monkeypatch, kinds):
    devices_are(monkeypatch, *kinds)
    is_accelerated = BACKEND == "tensorflow" and len(kinds) > 1
    assert compiles_with_xla() == (BACKEND == "jax" or is_accelerated)


def test_on_tensorflow_it_can_be_said(monkeypatch):
    devices_are(monkeypatch, "cpu", "gpu")
    assert compiles_with_xla(True) == (BACKEND in ("jax", "tensorflow"))
    assert compiles_with_xla(False) == (BACKEND == "jax")


@pytest.mark.tensorflow
def test_with_xla_each_shape_has_a_graph_that_knows_it():
    shapes = []

    def double(ids):
        shapes.append(tuple(ids.shape))
        return 2 * ids

    call = CompiledCalls(list, jit_compile=True)
    for shape in [(1, 3), (2, 5), (4, 4), (2, 5), (1, 3)]:
        ids = np.arange(np.prod(shape), dtype="int32").reshape(shape)
        assert ops.convert_to_numpy(call(double, ids)).tolist() == (2 * ids).tolist()
    assert shapes == [(1, 3), (2, 5), (4, 4)]


def build(seed=0, **overrides):
    keras.utils.set_random_seed(seed)
    sizes = {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 2, "vocabulary_size": VOCABULARY_SIZE}
    return build_transformer("tiny", **sizes, **layers, **overrides)


def sources(number, seed=0):
    """Ids (number, 9) of sentences of several lengths."""
    random = np.random.default_rng(seed)
    lengths = random.integers(1, 8, number)
    ids = random.integers(4, VOCABULARY_SIZE, (number, 9)).astype("int32")
    ids[np.arange(9) > lengths[:, None]] = 0
    ids[np.arange(number), lengths] = 2
    return ids


def check_same(models, run):
    """Require the same of `run(generator)` with XLA and without."""
    found, expected = (
        [
            ops.convert_to_numpy(values)
            for values in run(SequenceGenerator(models, jit_compile=jit_compile))
        ]
        for jit_compile in (True, False)
    )
    np.testing.assert_array_equal(found[0], expected[0])
    np.testing.assert_allclose(found[1], expected[1], atol=1e-4)


SEARCHES = {
    "beam": SHORT,
    "greedy": SHORT | {"beam_size": 1},
    "many beams": SHORT | {"beam_size": 9},
    "rules": SHORT | {"min_length": 2, "no_repeat_ngram": 2},
    "guard": SHORT | {"max_repeats": 1, "min_length": 4},
    "Transformers' end": SHORT | {"ending": "transformers", "renormalize": True},
}
MODELS = {
    "rotary": lambda: build(positions="rotary"),
    "learned": lambda: build(positions="learned", max_length=12),
    "window": lambda: build(attention_window=5, positions="rotary"),
    "ensemble": lambda: [build(0), build(1)],
}


def slow_but(names, quick):
    return [name if name in quick else pytest.param(name, marks=pytest.mark.slow) for name in names]


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", slow_but(SEARCHES, ["beam", "greedy"]))
def test_a_compiled_search_finds_the_same(name):
    ids, options = sources(17), SearchOptions(**SEARCHES[name])
    prefixes = sources(17, seed=1)[:, :1] if name == "rules" else None
    check_same(build(), lambda generator: generator.search(ids, prefixes, options=options))


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_models_of_all_kinds_compile(name):
    ids, options = sources(3), SearchOptions(**SHORT)
    check_same(MODELS[name](), lambda generator: generator.search(ids, options=options))


@pytest.mark.tensorflow
@pytest.mark.slow
def test_language_models_compile():
    model = build_language_model("tiny", vocabulary_size=VOCABULARY_SIZE, num_decoder_layers=1)
    prompts, options = np.array([[5, 6, 7], [8, 0, 0]]), SearchOptions(**SHORT)
    check_same(model, lambda generator: generator.search(prompts, options=options))


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_searches_for_trees_compile(beam_size):
    ids = np.array([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0], [0, 0, 0, 0, 0]], "int32")
    options = SearchOptions(beam_size=beam_size, extra_length=5, num_results=1)

    def search(generator):
        def is_tree(limits):
            tree_tokens = TreeTokens.of(PIECES)
            return WellFormedTree([2, 2, 0], limits, tree_tokens, TOKENS, VOCABULARY_SIZE)

        return generator.search(ids, options=options, constraints=(is_tree,))

    check_same(build(), search)


@pytest.mark.tensorflow
@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 3])
@pytest.mark.parametrize("ending", ["any", "transformers"])
def test_searches_of_alphas_compile(beam_size, ending):
    options = SearchOptions(beam_size=beam_size, extra_length=4, ending=ending)
    check_same(
        build(), lambda generator: generator.search_alphas(sources(5), [0.0, 1.0], options=options)
    )


@pytest.mark.tensorflow
@pytest.mark.slow
def test_samples_compile():
    uniforms = np.random.default_rng(0).random((5, 3, 20), dtype="float32")
    options = SearchOptions(extra_length=4)
    for filters in ({}, {"top_k": 4, "top_p": 0.9, "temperature": 0.8}):
        check_same(
            build(),
            lambda generator, filters=filters: generator.sample(
                sources(5), uniforms, options=options, **filters
            ),
        )


@pytest.mark.tensorflow
def test_a_graph_of_the_users_own_compiles():
    import tensorflow as tf

    model, options = build(), SearchOptions(**SHORT)
    ids = sources(3)
    plain = SequenceGenerator(model).search(ids, options=options)
    generator = SequenceGenerator(model, jit_compile=True)
    for shape in (ids.shape, (None, None)):
        search = tf.function(
            lambda ids: generator.search(ids, options=options),
            input_signature=[tf.TensorSpec(shape, tf.int32)],
            autograph=False,
            jit_compile=True,
        )
        found = search(ids)
        np.testing.assert_array_equal(found[0], plain[0])
        np.testing.assert_allclose(found[1], plain[1], atol=1e-4)

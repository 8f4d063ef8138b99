"""`generate` of built, loaded and cloned models: compiled, and equal to the search run eagerly."""

import dataclasses
import gc
import weakref

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import sequence_generator
from keras_transformer.decoding.compiled_calls import CompiledCalls
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import Transformer, build_language_model
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.decoding.test_sequence_generator import SOURCE_IDS, build, to_numpy
from tests.models.compiled_function import compiled

COMPILED = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="on torch, searches run as they are"
)
OPTIONS = {"beam_size": 2, "extra_length": 3}
SAMPLED = np.random.default_rng(0).random((3, 2, 9), dtype="float32")


@pytest.fixture(scope="module")
def model():
    return build(num_encoder_layers=1, num_decoder_layers=1)


@pytest.fixture
def searches(monkeypatch):
    """A list that grows with each search that is run or traced."""
    found, plain = [], sequence_generator.beam_search

    def counted(*arguments, **options):
        found.append(options["batch_size"])
        return plain(*arguments, **options)

    monkeypatch.setattr(sequence_generator, "beam_search", counted)
    return found


def assert_same(found, expected):
    (ids, scores), (expected_ids, expected_scores) = to_numpy(found), to_numpy(expected)
    assert (ids.dtype, scores.dtype) == ("int32", "float32")
    assert ids.tolist() == expected_ids.tolist()
    np.testing.assert_allclose(scores, expected_scores, atol=1e-5)


CALLS = {
    "search": ("search", (SOURCE_IDS,), {}),
    "sample": ("sample", (SOURCE_IDS, SAMPLED), {"top_k": 4}),
    "alphas": ("search_alphas", (SOURCE_IDS, [0, 1.5]), {}),
}


@COMPILED
@pytest.mark.parametrize("name", ["search", "sample", "alphas"])
def test_the_compiled_search_is_the_eager_one(model, name, monkeypatch):
    generator = SequenceGenerator(model)
    method, inputs, options = CALLS[name]

    def call():
        return getattr(generator, method)(*inputs, **options, options=SearchOptions(**OPTIONS))

    found = call()
    with monkeypatch.context() as patched:
        patched.setattr(generator, "_rules", None)  # what is compiled does not run again
        assert_same(call(), found)
        monkeypatch.setattr(model, "run_eagerly", True)
        with pytest.raises(TypeError, match="not callable"):
            call()
    assert_same(call(), found)


def test_a_compiled_language_model_continues_as_the_eager_one():
    model = build_language_model("tiny", vocabulary_size=12, num_decoder_layers=1)
    prompts = [[4, 5, 6], [7, 0, 0], [0, 0, 0]]
    found = model.generate(prompts, beam_size=1, extra_length=3)
    model.compile(run_eagerly=True)
    assert_same(model.generate(prompts, beam_size=1, extra_length=3), found)


@pytest.mark.tensorflow
def test_one_graph_serves_all_lengths(model, searches):
    generator = SequenceGenerator(model)
    for batch_size, length in [(1, 3), (3, 4), (2, 7), (2, 7), (4, 6), (3, 9), (0, 5)]:
        ids = np.full((batch_size, length), 5)
        found, scores = to_numpy(generator.search(ids, options=SearchOptions(**OPTIONS)))
        assert found.shape == (batch_size, 2, length + 3)
        assert scores.shape == (batch_size, 2)
    assert len(searches) <= 3  # the first shape, any length, any shape


@pytest.mark.tensorflow
def test_another_number_of_samples_is_another_shape(model):
    generator, options = SequenceGenerator(model), SearchOptions(extra_length=3)
    together, _ = to_numpy(generator.sample(SOURCE_IDS, SAMPLED, options=options))
    for samples in (1, 2):
        ids, _ = to_numpy(generator.sample(SOURCE_IDS, SAMPLED[:, :samples], options=options))
        assert ids.tolist() == together[:, :samples].tolist()


@COMPILED
def test_generate_keeps_its_graph_and_sees_new_weights(searches, tmp_path):
    model = build(num_encoder_layers=1, num_decoder_layers=1)
    model.save_weights(tmp_path / "model.weights.h5")
    first = to_numpy(model.generate(SOURCE_IDS, **OPTIONS))
    for weight in model.trainable_weights:
        weight.assign(weight * -1.3)
    second = to_numpy(model.generate(SOURCE_IDS, **OPTIONS))
    assert np.abs(first[1] - second[1]).max() > 1e-2
    model.load_weights(tmp_path / "model.weights.h5")
    assert_same(model.generate(SOURCE_IDS, **OPTIONS), first)
    assert len(searches) == 1


def test_other_variables_are_other_graphs():
    variables, calls = [keras.Variable([1.0, 2.0])], []

    def take(ids, factor):
        calls.append(factor)
        return factor * ops.take(variables[0], ids, axis=0)

    call = CompiledCalls(lambda: list(variables))
    ids = np.array([1, 0], "int32")
    assert to_numpy(call(take, ids, factor=3.0)).tolist() == [6.0, 3.0]
    variables[0].assign([5.0, 6.0])
    assert to_numpy(call(take, ids, factor=3.0)).tolist() == [18.0, 15.0]
    variables[:] = [keras.Variable([7.0, 8.0])]
    assert to_numpy(call(take, ids, factor=3.0)).tolist() == [24.0, 21.0]
    if keras.backend.backend() in ("tensorflow", "jax"):
        assert calls == [3.0, 3.0]


@pytest.mark.slow
def test_in_a_graph_it_runs_as_it_is(model):
    expected = model.generate(SOURCE_IDS, **OPTIONS)
    assert_same(compiled(lambda ids: model.generate(ids, **OPTIONS), SOURCE_IDS), expected)
    if keras.backend.backend() == "jax":  # a constant has values, but the weights may have none
        found = compiled(lambda _: model.generate(SOURCE_IDS, **OPTIONS), np.ones((1, 1)))
        assert_same(found, expected)


def test_loaded_and_cloned_models_generate(model, tmp_path):
    expected = model.generate(SOURCE_IDS, **OPTIONS)
    model.save(tmp_path / "model.keras")
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    for other in (keras.saving.load_model(tmp_path / "model.keras"), clone):
        assert type(other) is Transformer
        assert_same(other.generate(SOURCE_IDS, **OPTIONS), expected)


def test_a_functional_model_of_the_layers_generates(model):
    functional = keras.Model(model.input, model.output, name=model.name)
    other = Transformer.of(functional)
    assert other.weights[0] is model.weights[0]
    initializers = {"kernel_initializer": None, "bias_initializer": None}  # as objects in `other`
    options = [dataclasses.replace(each.options, **initializers) for each in (other, model)]
    assert options[0] == options[1]
    assert Transformer.of(model) is model
    found = SequenceGenerator(functional).search(SOURCE_IDS, options=SearchOptions(**OPTIONS))
    assert_same(found, model.generate(SOURCE_IDS, **OPTIONS))
    assert model.get_layer("encoder_layer_1").output.shape == (None, None, 16)


def test_special_tokens_and_prefixes_reach_the_search():
    model = build(num_encoder_layers=1, num_decoder_layers=1, padding_id=3)
    tokens = SpecialTokens(pad=3, unk=0)
    ids = np.where(SOURCE_IDS == 0, 3, SOURCE_IDS)
    prefix_ids = [[6, 5], [4, 3], [3, 3]]
    found, _ = to_numpy(model.generate(ids, prefix_ids, special_tokens=tokens, **OPTIONS))
    assert found[0, :, :2].tolist() == [[6, 5]] * 2
    assert found[1, :, 0].tolist() == [4, 4]
    limited, _ = to_numpy(model.generate(ids, special_tokens=tokens, vocabulary_size=5, **OPTIONS))
    assert limited.max() < 5


def test_a_model_that_is_gone_leaves_no_graph_behind():
    model = build(num_encoder_layers=1, num_decoder_layers=1)
    model.generate(SOURCE_IDS, **OPTIONS)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float32"])
def test_ids_of_any_real_type(model, dtype):
    expected = model.generate(SOURCE_IDS, **OPTIONS)
    assert_same(model.generate(SOURCE_IDS.astype(dtype), **OPTIONS), expected)
    assert_same(model.generate(ops.convert_to_tensor(SOURCE_IDS, dtype), **OPTIONS), expected)


WRONG = {
    "one row": ([7, 8, 2], r"shape \(batch, length\), such as \[\[7, 8, 2\]\]. .* shape=\(3,\)"),
    "no length": (np.zeros((2, 0)), r"at least EOS in each row. .* shape=\(2, 0\)"),
    "rows of other lengths": ([[7, 8, 2], [7, 2]], r"rows of the same length, .* lengths=\[2, 3\]"),
    "fractions": ([[7.5, 2]], "whole numbers. .* value=7.5"),
    "strings": ([["a"]], "integers. .* dtype='<U1'"),
    "no token": ([[12, 2]], "ids from 0 to 11. .* value=12"),
    "negative": ([[-1, 2]], "ids from 0 to 11. .* value=-1"),
}


@pytest.mark.parametrize(("ids", "message"), WRONG.values(), ids=WRONG)
def test_wrong_sources_are_named(model, ids, message):
    with pytest.raises(ValueError, match=f"`source_ids` must .*{message}$") as error:
        model.generate(ids)
    assert "\n" not in str(error.value)


def test_an_empty_batch_has_results_of_the_right_shape(model):
    ids, scores = to_numpy(model.generate(np.zeros((0, 4), "int32"), **OPTIONS))
    assert (ids.shape, scores.shape) == ((0, 2, 7), (0, 2))


def test_the_other_ids_are_checked_as_well(model):
    generator = SequenceGenerator(model)
    with pytest.raises(ValueError, match="`prefix_ids` must be ids from 0 to 11"):
        generator.search(SOURCE_IDS, [[12], [0], [0]])
    with pytest.raises(ValueError, match=r"`target_ids` must have the shape .* shape=\(3,\)"):
        generator.score(SOURCE_IDS, [1, 4, 5], [[4, 5, 2]] * 3)
    with pytest.raises(ValueError, match="`labels` must be whole numbers"):
        generator.score(SOURCE_IDS, [[1, 4]] * 3, [[4.5, 2]] * 3)
    with pytest.raises(ValueError, match=r"`source_ids` must have the shape .* shape=\(3,\)"):
        generator.alignment([7, 8, 2], [[1, 4]])

"""Models whose decoder has a recurrent unit in place of self-attention: every part takes them."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import losses
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.search_options import SearchOptions
from tests.models.search_scores import check_search_scores

pytestmark = pytest.mark.core

SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 8, "num_heads": 2}
SOURCE_IDS = np.array([[5, 6, 7, 2], [8, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 9, 5], [1, 6, 6]], "int32")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(1)
    return build_transformer("tiny", vocabulary_size=12, decoder_unit="ssru", **SIZES)


def logits_of(model):
    return ops.convert_to_numpy(model({"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}))


@pytest.mark.slow
def test_training_learns(model):
    model = keras.models.clone_model(model)
    labels = np.array([[9, 5, 2], [6, 6, 2]])
    model.compile(keras.optimizers.Adam(0.01), losses.LabelSmoothingCrossEntropy(0.1, 0))
    inputs = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
    found = model.fit(inputs, labels, epochs=10, verbose=0).history["loss"]
    assert found[-1] < 0.8 * found[0]


def test_saved_and_reloaded_it_is_the_same(model, tmp_path):
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    assert reloaded.options == model.options
    assert reloaded.options.decoder_unit == "ssru"
    np.testing.assert_allclose(logits_of(reloaded), logits_of(model), atol=1e-6)


def test_its_weights_are_counted(model):
    assert model.options.count_weights() == model.count_params()


def test_paths_of_its_weights(model):
    paths = {weight.path for weight in model.weights}
    assert {
        "decoder_layer_1/ssru/candidate/kernel",
        "decoder_layer_1/ssru/gate/kernel",
        "decoder_layer_1/ssru/gate/bias",
    } <= paths
    assert not [path for path in paths if path.startswith("decoder") and "self_attention/" in path]


@pytest.mark.parametrize("length", [3, pytest.param(None, marks=pytest.mark.tensorflow)])
def test_steps_equal_a_call(model, length):
    """With a fixed length, and with one that grows; the state has one size."""
    expected = logits_of(model)
    state, cache = model.start(ops.convert_to_tensor(SOURCE_IDS), beam_size=1, length=length)
    for index in range(3):
        tokens = ops.convert_to_tensor(TARGET_IDS[:, index : index + 1])
        logits, cache = model.step(tokens, index, state, cache)
        np.testing.assert_allclose(
            ops.convert_to_numpy(logits)[:, 0], expected[:, index], atol=1e-5
        )
    assert [tuple(layer.values.shape) for layer in cache[1].rows()] == [(2, 1, 8)] * 2


@pytest.mark.parametrize("beam_size", [1, 3, 10])
def test_a_search_gives_the_probabilities_of_a_call(model, beam_size):
    """Hypotheses that share their sentence's cache, and those with caches of their own."""
    generator = SequenceGenerator(model)
    options = SearchOptions(beam_size=beam_size, alpha=0.0, extra_length=4)
    check_search_scores(generator, SOURCE_IDS, options)


def test_attention_scores_have_none_of_the_decoders_own(model):
    scores = model.attention_scores(
        ops.convert_to_tensor(SOURCE_IDS), ops.convert_to_tensor(TARGET_IDS)
    )
    assert (len(scores.encoder), len(scores.decoder), len(scores.cross)) == (1, 0, 2)
    found = model.cross_attention(
        ops.convert_to_tensor(SOURCE_IDS), ops.convert_to_tensor(TARGET_IDS), layer=1
    )
    np.testing.assert_allclose(found, ops.mean(scores.cross[1], axis=1), atol=1e-6)


def test_a_language_model_generates_with_it():
    model = build_language_model(
        "tiny", vocabulary_size=12, decoder_unit="ssru", num_decoder_layers=1, hidden_dim=8
    )
    ids, _ = SequenceGenerator(model).search([[5, 6]], options=SearchOptions(extra_length=2))
    assert ops.convert_to_numpy(ids)[0, 0, :2].tolist() == [5, 6]
    assert model.attention_scores(None, ops.convert_to_tensor([[5, 6]])).decoder == []

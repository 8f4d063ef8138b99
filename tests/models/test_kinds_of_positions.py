"""How a decoder knows order: every part of the package takes its kinds.

All kinds of positions, and one in this file alone; and a recurrent unit in place of self-attention.
"""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import losses
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.layers import positions
from keras_transformer.layers.positions import POSITIONS, Positions, register_positions
from keras_transformer.models import build_language_model, build_transformer, check_model_fits
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import KINDS_OF_POSITIONS
from tests.models.search_scores import check_search_scores

SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 8, "num_heads": 2}
SOURCE_IDS = np.array([[5, 6, 7, 2], [8, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 9, 5], [1, 6, 6]], "int32")


@pytest.fixture(autouse=True, scope="module")
def parity():
    """Even and odd positions have a learned vector each, and there are at most six."""

    @register_positions("parity")
    class Parity(Positions):
        @classmethod
        def count_weights(cls, hidden_dim, max_length, num_tables):
            return 2 * hidden_dim

        @property
        def limit(self):
            return 6

        def build(self, layer):
            self.table = layer.add_weight(shape=(2, self.hidden_dim), name="parity")

        def at(self, positions, table):
            return ops.take(self.table, ops.mod(positions, 2), axis=0)

    yield
    del positions.POSITIONS["parity"]


OF_ANY_VOCABULARY = [
    name for name, kind in POSITIONS.items() if not kind.needs_separate_vocabularies
]


def test_the_kinds_are_those_that_flags_offer():
    assert tuple(name for name in POSITIONS if name != "parity") == KINDS_OF_POSITIONS


KINDS = [("positions", name) for name in ("parity", *OF_ANY_VOCABULARY)]


@pytest.fixture(scope="module", params=[*KINDS, ("decoder_unit", "ssru")], ids=lambda pair: pair[1])
def kind(request):
    return dict([request.param])


@pytest.fixture(scope="module")
def model(kind):
    keras.utils.set_random_seed(1)
    return build_transformer("tiny", vocabulary_size=12, **kind, **SIZES)


def logits_of(model):
    return ops.convert_to_numpy(model({"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}))


@pytest.mark.slow
def test_training_learns_and_changes_its_weights(model):
    tables = [weight for weight in model.weights if weight.name == "parity"]
    before = [ops.convert_to_numpy(table) for table in tables]
    labels = np.array([[9, 5, 2], [6, 6, 2]])
    model.compile(keras.optimizers.Adam(0.01), losses.LabelSmoothingCrossEntropy(0.1, 0))
    inputs = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
    found = model.fit(inputs, labels, epochs=10, verbose=0).history["loss"]
    assert found[-1] < 0.8 * found[0]
    for table, old in zip(tables, before, strict=True):
        assert (np.abs(ops.convert_to_numpy(table) - old) > 0).any(axis=1).all()


def test_saved_and_reloaded_it_is_the_same(model, tmp_path):
    model.save(tmp_path / "model.keras")
    reloaded = keras.saving.load_model(tmp_path / "model.keras")
    assert reloaded.options == model.options
    np.testing.assert_allclose(logits_of(reloaded), logits_of(model), atol=1e-6)


def test_its_weights_are_counted(model, kind):
    options = check_model_fits("tiny", vocabulary_size=12, **kind, **SIZES)
    assert options.count_weights() == model.count_params()


@pytest.mark.parametrize("length", [3, pytest.param(None, marks=pytest.mark.tensorflow)])
def test_steps_equal_a_call(model, length):
    """With a cache of a fixed length, and with one that grows."""
    expected = logits_of(model)
    source_ids = ops.convert_to_tensor(SOURCE_IDS)
    state, cache = model.start(source_ids, beam_size=1, length=length)
    for index in range(3):
        tokens = ops.convert_to_tensor(TARGET_IDS[:, index : index + 1])
        logits, cache = model.step(tokens, index, state, cache)
        np.testing.assert_allclose(logits[:, 0], expected[:, index], atol=1e-5)


@pytest.mark.parametrize(
    "beam_size", [3, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 10))]
)
def test_a_search_gives_the_probabilities_of_a_call(model, beam_size):
    generator = SequenceGenerator(model)
    options = SearchOptions(beam_size=beam_size, alpha=0.0, extra_length=1)
    check_search_scores(generator, SOURCE_IDS, options)


def test_outputs_end_at_its_limit():
    model = build_transformer("tiny", vocabulary_size=12, positions="parity", **SIZES)
    # So strong a penalty favors the longest output: five tokens behind BOS, and EOS.
    options = SearchOptions(alpha=9.0)
    ids, _ = SequenceGenerator(model).search(SOURCE_IDS, options=options)
    assert (ops.convert_to_numpy(ids)[:, 0] != 0).sum(axis=1).tolist() == [6, 6]
    with pytest.raises(ValueError, match=r"parity positions, `max_length`. .* length=7, max_len"):
        model({"source_ids": np.ones((1, 7), "int32"), "target_ids": TARGET_IDS[:1]})


def test_a_language_model_generates_with_it(kind):
    model = build_language_model(
        "tiny", vocabulary_size=12, **kind, num_decoder_layers=1, hidden_dim=8
    )
    ids, _ = SequenceGenerator(model).search([[5, 6]], options=SearchOptions(extra_length=2))
    assert ops.convert_to_numpy(ids)[0, 0, :2].tolist() == [5, 6]


def test_it_refuses_what_goes_with_words_alone(kind):
    positions = kind.get("positions", "sinusoidal")
    with pytest.raises(ValueError, match=f"only for .* Received: positions='{positions}'"):
        build_transformer(vocabulary_size=12, **kind, source_word_starts=[1], **SIZES)


@pytest.fixture(scope="module")
def ssru_model():
    sizes = {**SIZES, "num_decoder_layers": 2}
    return build_transformer("tiny", vocabulary_size=12, decoder_unit="ssru", **sizes)


def test_paths_of_an_ssrus_weights(ssru_model):
    paths = {weight.path for weight in ssru_model.weights}
    assert {
        "decoder_layer_1/ssru/candidate/kernel",
        "decoder_layer_1/ssru/gate/kernel",
        "decoder_layer_1/ssru/gate/bias",
    } <= paths
    assert not [path for path in paths if path.startswith("decoder") and "self_attention/" in path]


def test_the_state_of_ssrus_has_one_size(ssru_model):
    start = ssru_model.start(ops.convert_to_tensor(SOURCE_IDS), beam_size=1, length=3)
    _, (_, cache) = ssru_model.step(ops.convert_to_tensor(TARGET_IDS[:, :1]), 0, *start)
    assert [tuple(layer.values.shape) for layer in cache.rows()] == [(2, 1, 8)] * 2


def test_attention_scores_of_ssrus_have_none_of_the_decoders_own(ssru_model):
    pair = ops.convert_to_tensor(SOURCE_IDS), ops.convert_to_tensor(TARGET_IDS)
    scores = ssru_model.attention_scores(*pair)
    assert (len(scores.encoder), len(scores.decoder), len(scores.cross)) == (1, 0, 2)
    found = ssru_model.cross_attention(*pair, layer=1)
    np.testing.assert_allclose(found, ops.mean(scores.cross[1], axis=1), atol=1e-6)
    sizes = {"num_decoder_layers": 1, "hidden_dim": 8, "vocabulary_size": 12}
    model = build_language_model("tiny", decoder_unit="ssru", **sizes)
    assert model.attention_scores(None, pair[1]).decoder == []


def test_the_packages_own_kinds_are_not_replaced():
    with pytest.raises(
        ValueError, match="must not be one of this package's kinds. Received: name='learned'"
    ):
        register_positions("learned")

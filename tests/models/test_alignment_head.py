"""Models with a head that aligns words."""

import keras
import numpy as np
import pytest

from keras_transformer.models import Transformer, build_transformer, with_alignment_head

SOURCE = np.array([[5, 6, 2, 0], [7, 8, 9, 2]], "int32")
TARGET = np.array([[1, 5, 6], [1, 7, 8]], "int32")
SMALL = {"vocabulary_size": 20, "num_encoder_layers": 1, "num_decoder_layers": 3, "hidden_dim": 16}


def small_model(**options):
    keras.utils.set_random_seed(3)
    return build_transformer("tiny", **{**SMALL, **options})


def numpy(tensor):
    return keras.ops.convert_to_numpy(tensor)


@pytest.mark.parametrize("layer", [1, 2, 3])
def test_the_head_reads_the_layer_at_the_token_itself(layer):
    model = small_model(alignment_layer=layer)
    memory, mask = model.encode(SOURCE)
    hidden = model._hidden(TARGET, memory, mask, num_layers=layer)
    expected = numpy(model.alignment_head.attend(hidden, memory, mask))
    found = numpy(model.cross_attention(SOURCE, TARGET))
    np.testing.assert_array_equal(found[:, :-1], expected[:, 1:])
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-5)
    assert (found[0, :, 3] == 0).all()  # padding


def test_the_row_of_a_token_depends_on_the_token():
    """The row of the cross-attention does not, because it predicts the token."""
    model = small_model(alignment_layer=1)
    other = TARGET.copy()
    other[:, 1] = 9
    for layer, is_equal in ((None, False), (1, True)):
        rows = [numpy(model.cross_attention(SOURCE, ids, layer))[:, 0] for ids in (TARGET, other)]
        assert np.array_equal(*rows) == is_equal


def test_an_added_head_changes_nothing_else():
    model = small_model()
    guided = with_alignment_head(model)
    assert guided.options.alignment_layer == 2
    assert guided.count_params() == guided.options.count_weights()
    inputs = {"source_ids": SOURCE, "target_ids": TARGET}
    np.testing.assert_array_equal(numpy(model(inputs)), numpy(guided(inputs)))
    found = [
        numpy(each.generate(SOURCE, beam_size=2, extra_length=4)[0]) for each in (model, guided)
    ]
    np.testing.assert_array_equal(*found)
    assert with_alignment_head(guided) is guided


def test_the_guided_model_adds_the_weighted_loss_of_the_links():
    model = small_model(alignment_layer=2)
    links = np.zeros((2, 3, 4), "float32")
    links[0, 1, 0], links[1, 2, 1] = 0.5, 0.25
    guided = model.guided(0.2)
    logits = guided({"source_ids": SOURCE, "target_ids": TARGET, "links": links})
    (loss,) = guided.losses
    weights = numpy(model.cross_attention(SOURCE, TARGET)).astype("float64")
    expected = -0.2 * (0.5 * np.log(weights[0, 0, 0]) + 0.25 * np.log(weights[1, 1, 1]))
    np.testing.assert_allclose(numpy(loss), expected, rtol=1e-5)
    plain = model({"source_ids": SOURCE, "target_ids": TARGET})
    np.testing.assert_array_equal(numpy(logits), numpy(plain))
    assert not model.losses
    assert {id(each) for each in guided.weights} == {id(each) for each in model.weights}


def test_a_head_of_the_cross_attention_aligns(tmp_path):
    model = with_alignment_head(small_model(), 3, alignment_head=2)
    assert model.count_params() == small_model().count_params()
    assert model.count_params() == model.options.count_weights()
    scores = model.attention_scores(SOURCE, TARGET)
    expected = numpy(scores.cross[2])[:, 1]
    np.testing.assert_array_equal(numpy(model.cross_attention(SOURCE, TARGET)), expected)
    np.testing.assert_array_equal(numpy(scores.alignment[0])[:, 0], expected)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert (loaded.options.alignment_layer, loaded.options.alignment_head) == (3, 2)
    np.testing.assert_array_equal(numpy(loaded.cross_attention(SOURCE, TARGET)), expected)
    own = with_alignment_head(loaded, 1)  # for guided training
    assert (own.options.alignment_layer, own.options.alignment_head) == (1, None)


def test_files_keep_the_head(tmp_path):
    model = small_model(alignment_layer=3)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded, Transformer)
    assert loaded.options == model.options
    expected = numpy(model.cross_attention(SOURCE, TARGET))
    np.testing.assert_array_equal(numpy(loaded.cross_attention(SOURCE, TARGET)), expected)
    assert keras.models.clone_model(model).options.alignment_layer == 3


def test_a_frozen_head_stays_frozen_in_files(tmp_path):
    model = small_model(alignment_layer=1)
    model.alignment_head.trainable = False
    model.save(tmp_path / "model.keras")
    assert not keras.models.load_model(tmp_path / "model.keras").alignment_head.trainable


def test_packed_rows_and_frozen_layers_know_the_head():
    model = small_model(alignment_layer=1)
    packed = model.packed()
    assert {id(each) for each in packed.weights} == {id(each) for each in model.weights}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: small_model(alignment_layer=4), "`alignment_layer` must be at most 3"),
        (lambda: small_model().guided(0.1), "`alignment_layer` must be set, without"),
        (
            lambda: small_model(alignment_layer=1, alignment_head=2).guided(0.1),
            "`alignment_layer` must be set, without",
        ),
        (
            lambda: small_model(alignment_layer=1, alignment_head=5),
            "`alignment_head` must be at most 4",
        ),
        (lambda: small_model(alignment_head=1), "`alignment_head` must be at most 4, with"),
        (
            lambda: with_alignment_head(small_model(alignment_layer=1), 2),
            "`alignment_layer` must be 1, as in the model",
        ),
    ],
)
def test_a_head_that_does_not_fit_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()

"""Layers that are frozen before they are built, loaded or cloned."""

import keras
import numpy as np
import pytest

from keras_transformer.layers import (
    SSRU,
    FeedForward,
    PositionalEmbedding,
    ResidualBlock,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.models import build_transformer

pytestmark = pytest.mark.core

SIZES = {"intermediate_dim": 8, "num_heads": 2}
VECTORS = np.ones((1, 3, 4), "float32")


@pytest.mark.parametrize(
    ("layer", "inputs"),
    [
        (FeedForward(8, trainable=False), [VECTORS]),
        (SSRU(trainable=False), [VECTORS]),
        (ResidualBlock(trainable=False), [VECTORS, VECTORS]),
        (PositionalEmbedding(9, 4, trainable=False), [np.ones((1, 3), "int32")]),
        (TransformerEncoderLayer(**SIZES, trainable=False), [VECTORS]),
        (TransformerDecoderLayer(**SIZES, trainable=False), [VECTORS, VECTORS]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_frozen_layer_stays_frozen_when_it_is_built(layer, inputs):
    layer(*inputs)
    assert layer.weights
    assert layer.trainable_weights == []
    layer.trainable = True
    assert len(layer.trainable_weights) == len(
        [weight for weight in layer.weights if "seed" not in weight.path]
    )


def test_a_frozen_layer_stays_frozen_in_a_file_and_in_a_clone(tmp_path):
    model = build_transformer(
        vocabulary_size=9, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=4, **SIZES
    )
    model.get_layer("encoder_layer_1").trainable = False
    number = len(model.trainable_weights)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    for other in (loaded, keras.models.clone_model(model)):
        assert len(other.trainable_weights) == number
        assert other.get_layer("encoder_layer_1").trainable_weights == []


def test_frozen_parts_of_a_layer_stay_frozen_in_a_file_and_in_a_clone(tmp_path):
    model = build_transformer(
        vocabulary_size=9, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=4, **SIZES
    )
    encoder, decoder = model.encoder_layers[0], model.decoder_layers[0]
    encoder.attention.trainable = decoder.feed_forward.expand.trainable = False
    encoder.attention.projections["output"].trainable = True
    names = [weight.path for weight in model.trainable_weights]
    model.save(tmp_path / "model.keras")
    inputs = keras.Input((None, 4))
    own = keras.Model(inputs, encoder(inputs))
    own.save(tmp_path / "own.keras")
    for other in (
        keras.saving.load_model(tmp_path / "model.keras"),
        keras.models.clone_model(model),
    ):
        assert [weight.path for weight in other.trainable_weights] == names
    for other in (keras.saving.load_model(tmp_path / "own.keras"), keras.models.clone_model(own)):
        assert len(other.trainable_weights) == len(encoder.trainable_weights)


def test_a_block_is_entered_before_it_is_built():
    inputs = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    block = ResidualBlock(normalize_first=True)
    entered = keras.ops.convert_to_numpy(block.enter(inputs))
    np.testing.assert_allclose(entered.mean(axis=-1), 0, atol=1e-5)
    found = keras.ops.convert_to_numpy(block(inputs, 2 * entered))
    np.testing.assert_allclose(found, inputs + 2 * entered, atol=1e-5)
    with pytest.raises(ValueError, match="must be entered in the `call` of a layer"):
        ResidualBlock(normalize_first=True).enter(keras.Input((3, 4)))


def test_a_functional_model_enters_a_post_norm_block():
    inputs, block = keras.Input((3, 4)), ResidualBlock()
    model = keras.Model(inputs, block(inputs, keras.layers.Dense(4)(block.enter(inputs))))
    assert model.predict(VECTORS, verbose=0).shape == (1, 3, 4)


@pytest.mark.tensorflow  # on the others Keras's own operations make float32 of float64
def test_biases_of_float64_are_added_in_float64():
    layer = FeedForward(8, dtype="float64", bias_initializer="random_normal")
    inputs = np.random.default_rng(0).normal(size=(1, 3, 4))
    layer.build(inputs.shape)
    kernel, bias, output_kernel, output_bias = (
        keras.ops.convert_to_numpy(weight) for weight in layer.trainable_weights
    )
    expected = np.maximum(inputs @ kernel + bias, 0) @ output_kernel + output_bias
    np.testing.assert_allclose(keras.ops.convert_to_numpy(layer(inputs)), expected, rtol=1e-12)

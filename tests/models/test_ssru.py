"""The recurrent unit against its formula, and in the decoder's layers."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import SSRU, TransformerDecoderLayer
from tests.layers.gradients import outputs_and_gradients
from tests.layers.layer_contract import check_layer_contract

pytestmark = pytest.mark.core

DIM = 4
SIZES = {"intermediate_dim": 8, "num_heads": 2}


def numbers(tensor):
    return ops.convert_to_numpy(tensor).astype("float64")


def vectors(length, batch=2):
    return np.random.default_rng(length).normal(size=(batch, length, DIM)).astype("float32")


def unit(**options):
    layer = SSRU(bias_initializer="random_normal", **options)
    layer.build((None, None, DIM))
    return layer


def reference(layer, x, is_continued=None):
    """One position after the other."""
    candidate, gate, bias = (
        numbers(weight) for weight in (layer.candidate.kernel, layer.gate.kernel, layer.gate.bias)
    )
    state, outputs = np.zeros((len(x), DIM)), []
    for position in range(x.shape[1]):
        if is_continued is not None:
            state = state * is_continued[:, position, None]
        share = 1 / (1 + np.exp(-(x[:, position] @ gate + bias)))
        state = share * state + (1 - share) * (x[:, position] @ candidate)
        outputs.append(np.maximum(state, 0))
    return np.stack(outputs, axis=1)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 21])
def test_a_call_equals_the_formula(length):
    layer, x = unit(), vectors(length)
    np.testing.assert_allclose(numbers(layer(x)), reference(layer, x), atol=1e-6)


def test_the_length_need_not_be_known():
    layer, x = unit(), vectors(21)
    inputs = keras.Input((None, DIM))
    model = keras.Model(inputs, layer(inputs))
    np.testing.assert_allclose(numbers(model.predict(x, verbose=0)), reference(layer, x), atol=1e-6)


class BySteps(keras.layers.Layer):
    """A unit, one position after the other."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.built = True

    def call(self, x):
        state, outputs = self.layer.start_cache(len(x), 1), []
        for position in range(x.shape[1]):
            found, state = self.layer.step(x[:, position : position + 1], state)
            outputs.append(found)
        return ops.concatenate(outputs, axis=1)


def test_gradients_equal_those_of_steps():
    layer, x, factors = unit(), vectors(5), vectors(6)[:, :5]
    _, of_inputs, of_weights = outputs_and_gradients(layer, [x], factors)
    _, expected_of_inputs, expected = outputs_and_gradients(BySteps(layer), [x], factors)
    np.testing.assert_allclose(of_inputs[0], expected_of_inputs[0], atol=1e-5)
    for name, gradient in of_weights.items():
        np.testing.assert_allclose(gradient, expected[name], atol=1e-5)


def test_a_position_may_start_anew():
    layer, x = unit(), vectors(6)
    is_continued = np.array([[1, 1, 0, 1, 1, 0], [0, 1, 1, 1, 0, 1]], bool)
    np.testing.assert_allclose(
        numbers(layer(x, is_continued)), reference(layer, x, is_continued), atol=1e-6
    )


def test_steps_equal_a_call():
    layer, x = unit(), vectors(7)
    state = layer.start_cache(2, 1)
    for position in range(7):
        found, state = layer.step(ops.convert_to_tensor(x[:, position : position + 1]), state)
        np.testing.assert_allclose(numbers(found)[:, 0], numbers(layer(x))[:, position], atol=1e-6)


def test_low_precision_keeps_its_state_in_float32():
    layer = unit(dtype="mixed_bfloat16")
    x = np.ones((1, 300, DIM), "float32")
    found = numbers(ops.cast(layer(x), "float32"))
    np.testing.assert_allclose(found, reference(layer, x), rtol=0.02, atol=0.01)
    assert keras.backend.standardize_dtype(layer.start_cache(1, 1).values.dtype) == "float32"


def test_the_contract_of_layers():
    check_layer_contract(SSRU(), vectors(3))
    layer = TransformerDecoderLayer(**SIZES, decoder_unit="ssru")
    check_layer_contract(layer, vectors(3), vectors(5))


def test_a_decoder_layer_never_sees_later_positions():
    layer, x, memory = TransformerDecoderLayer(**SIZES, decoder_unit="ssru"), vectors(6), vectors(5)
    expected = numbers(layer(x, memory))
    x[:, 4:] += 1
    found = numbers(layer(x, memory))
    np.testing.assert_allclose(found[:, :4], expected[:, :4], atol=1e-6)
    assert np.abs(found[:, 5] - expected[:, 5]).max() > 0.01


def test_a_decoder_layer_has_the_attention_to_the_memory_alone():
    layer = TransformerDecoderLayer(**SIZES, decoder_unit="ssru")
    _, scores = layer(vectors(3), vectors(5), return_attention_scores=True)
    assert tuple(scores.shape) == (2, 2, 3, 5)
    spec = layer(
        keras.KerasTensor((2, 3, DIM)), keras.KerasTensor((2, 5, DIM)), return_attention_scores=True
    )
    assert [tuple(each.shape) for each in spec] == [(2, 3, DIM), (2, 2, 3, 5)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"use_causal_mask": False}, "`use_causal_mask` must be True with decoder_unit='ssru'"),
        ({"mask": np.ones((2, 2, 3, 3), bool)}, "`mask` must be the same for all heads"),
        ({"return_attention_scores": True}, "no attention weights"),
    ],
)
def test_a_decoder_layer_refuses_what_a_recurrent_unit_cannot_do(options, message):
    layer = TransformerDecoderLayer(**SIZES, decoder_unit="ssru")
    with pytest.raises(ValueError, match=message):
        layer(vectors(3), **options)


def test_units_have_names():
    with pytest.raises(ValueError, match="`decoder_unit` must be one of .*decoder_unit='lstm'"):
        TransformerDecoderLayer(**SIZES, decoder_unit="lstm")
    with pytest.raises(ValueError, match="rank 3"):
        SSRU()(np.ones((2, 3), "float32"))

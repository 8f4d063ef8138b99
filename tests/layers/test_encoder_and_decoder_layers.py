import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    ResidualBlock,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.layers.numpy_layers import random, transformer_layer

HIDDEN, HEADS, KEY_DIM, INNER = 8, 2, 4, 12


# The order of a layer's parts, and the forms of its residual connections.
FORMS = {
    "post-norm": {},
    "pre-norm": {"normalize_first": True},
    "scaled": {"residual_scale": 1.7, "initial_gain": 0.4},
    "b2t": {"b2t_connection": True, "residual_scale": 1.2},
}


def options(form):
    return {"num_heads": HEADS, "key_dim": KEY_DIM, "intermediate_dim": INNER, **FORMS[form]}


def randomize(layer):
    """Give every weight, also the norms' ones and zeros, a value of its own."""
    for number, weight in enumerate(layer.weights):
        weight.assign(random(*weight.shape, seed=number + 10))


@pytest.mark.parametrize("layer_class", [TransformerEncoderLayer, TransformerDecoderLayer])
@pytest.mark.parametrize("form", FORMS)
def test_a_layer_equals_the_formula(layer_class, form):
    """The outputs, alone and with the weights of all attentions."""
    layer, inputs = layer_class(**options(form)), [random(1, 5, HIDDEN)]
    if layer_class is TransformerEncoderLayer:
        masks = {"mask": np.arange(5)[None, None] < 4}
        arguments = [np.broadcast_to(masks["mask"][0], (5, 5))]
    else:
        inputs.append(random(1, 7, HIDDEN, seed=1))
        masks = {"memory_mask": np.arange(7)[None, None] < 6}
        to_memory = np.broadcast_to(masks["memory_mask"][0], (5, 7))
        arguments = [np.tril(np.ones((5, 5), bool)), inputs[1][0], to_memory]
    layer(*inputs, **masks)
    randomize(layer)
    expected, weights = transformer_layer(layer, inputs[0][0].astype("float64"), *arguments)
    outputs, *scores = layer(*inputs, **masks, return_attention_scores=True)
    for found in (outputs, layer(*inputs, **masks)):
        found, atol = ops.convert_to_numpy(found)[0], 1e-5 * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=atol)
    for found, expected in zip(scores, weights, strict=True):
        np.testing.assert_allclose(ops.convert_to_numpy(found)[0], expected, atol=1e-4)


@pytest.mark.parametrize("has_memory", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_decoder_steps_equal_a_call(form, has_memory):
    biases = {"use_bias": True, "bias_initializer": "random_normal"}
    layer = TransformerDecoderLayer(**options(form), **biases)
    inputs, memory, mask, projected = random(2, 5, HIDDEN), None, None, None
    if has_memory:
        memory, mask = random(2, 7, HIDDEN, seed=1), np.arange(7) < np.array([[7], [3]])
    expected = ops.convert_to_numpy(layer(inputs, memory, memory_mask=mask))
    cache, projected = layer.start_cache(2, 1, 6), layer.project_memory(memory)
    for index in range(5):
        output, cache = layer.step(
            ops.convert_to_tensor(inputs[:, None, index]), index, projected, mask, cache
        )
        np.testing.assert_allclose(output[:, 0], expected[:, index], atol=1e-5)


def test_a_decoder_layer_without_memory_is_a_causal_encoder_layer():
    encoder, decoder = (
        layer_class(**options("pre-norm"), activation="gelu", layer_norm_epsilon=0.1)
        for layer_class in (TransformerEncoderLayer, TransformerDecoderLayer)
    )
    inputs = random(2, 5, HIDDEN)
    expected, expected_scores = encoder(inputs, use_causal_mask=True, return_attention_scores=True)
    decoder(inputs)
    decoder.set_weights(encoder.get_weights())
    outputs, scores = decoder(inputs, return_attention_scores=True)
    np.testing.assert_allclose(outputs, expected, atol=1e-6)
    np.testing.assert_allclose(scores, expected_scores, atol=1e-6)
    assert not np.allclose(
        ops.convert_to_numpy(decoder(inputs, use_causal_mask=False)), ops.convert_to_numpy(expected)
    )


def test_a_decoder_layer_keeps_to_its_memory():
    x = random(1, 3, HIDDEN)
    with_memory, without = (TransformerDecoderLayer(**options("post-norm")) for _ in range(2))
    with_memory(x, x)
    without(x)
    symbol = keras.KerasTensor(x.shape)
    for tensor in (x, symbol):
        with pytest.raises(ValueError, match="built with `memory`.*a call without `memory`"):
            with_memory(tensor)
        with pytest.raises(ValueError, match="built without `memory`.*a call with `memory`"):
            without(tensor, tensor)
    with pytest.raises(ValueError, match="built without `memory`"):
        without.project_memory(x)


def test_scores_of_symbolic_calls_have_the_shapes_of_others():
    x, memory = random(2, 4, HIDDEN), random(2, 6, HIDDEN)
    for make, inputs in (
        (lambda: MultiHeadAttention(2, 3), [x, memory]),
        (lambda: TransformerEncoderLayer(INNER, 2), [x]),
        (lambda: TransformerDecoderLayer(INNER, 2), [x]),
        (lambda: TransformerDecoderLayer(INNER, 2), [x, memory]),
    ):
        layer = make()
        spec = make().compute_output_spec(*map(symbol_of, inputs))  # of a layer not yet built
        outputs = layer(*inputs, return_attention_scores=True)
        symbols = layer(*map(symbol_of, inputs), return_attention_scores=True)
        assert spec.shape == symbols[0].shape
        assert [tuple(symbol.shape) for symbol in symbols] == [tuple(o.shape) for o in outputs]
        assert {symbol.dtype for symbol in symbols} == {"float32"}


def symbol_of(array):
    return keras.KerasTensor(array.shape, str(array.dtype))


def test_later_targets_do_not_change_earlier_outputs():
    layer = TransformerDecoderLayer(**options("post-norm"))
    inputs, memory = random(1, 5, HIDDEN), random(1, 7, HIDDEN, seed=1)
    changed = inputs.copy()
    changed[0, 3:] += 1
    before, after = (ops.convert_to_numpy(layer(x, memory)) for x in (inputs, changed))
    np.testing.assert_allclose(before[0, :3], after[0, :3], atol=1e-6)
    assert not np.allclose(before[0, 3:], after[0, 3:])


def test_dropout_is_on_each_sublayer_output():
    shape = (None, None, HIDDEN)
    for layer_class, shapes in (
        (TransformerEncoderLayer, [shape]),
        (TransformerDecoderLayer, [shape, shape]),
    ):
        layer = layer_class(**options("post-norm"), dropout=0.3)
        layer.build(*shapes)
        blocks = [part for part in layer._layers if isinstance(part, ResidualBlock)]
        assert [part.dropout for part in blocks] == [0.3] * len(blocks)
        assert len(blocks) == 1 + len(shapes)
    block_layer = ResidualBlock(dropout=0.3, normalize_first=True)
    total = ops.convert_to_numpy(
        block_layer(np.zeros((1, 100, 100), "f"), np.ones((1, 100, 100), "f"), training=True)
    )
    assert set(np.unique(total.round(4))) == {0, np.float32(1.4286)}
    assert (total == 0).mean() == pytest.approx(0.3, abs=0.02)


def kernels(layer):
    """The matrices of a layer by their paths."""
    return {weight.path: ops.convert_to_numpy(weight) for weight in layer.weights}


def test_the_gain_is_that_of_values_outputs_and_feed_forward():
    plain, small = (
        TransformerDecoderLayer(
            INNER, HEADS, kernel_initializer=keras.initializers.RandomNormal(seed=3), **given
        )
        for given in ({}, {"initial_gain": 0.25})
    )
    for layer in (plain, small):
        layer.build((1, 3, HIDDEN), (1, 4, HIDDEN))
    for name, factors in (
        ("self_attention/query_key_value", (1, 1, 0.25)),
        ("self_attention/output", (0.25,)),
        ("cross_attention/query", (1,)),
        ("cross_attention/key_value", (1, 0.25)),
        ("cross_attention/output", (0.25,)),
        ("feed_forward/expand", (0.25,)),
        ("feed_forward/contract", (0.25,)),
    ):
        expected, found = (
            np.split(kernels(layer)[f"{layer.name}/{name}/kernel"], len(factors), axis=1)
            for layer in (plain, small)
        )
        for factor, part, other in zip(factors, expected, found, strict=True):
            np.testing.assert_allclose(other, factor * part, rtol=1e-6)


def test_b2t_is_for_post_norm():
    with pytest.raises(ValueError, match="`b2t_connection` must be False with `normalize_first`"):
        TransformerEncoderLayer(INNER, HEADS, b2t_connection=True, normalize_first=True)


def test_an_unknown_activation_is_refused():
    with pytest.raises(ValueError, match="relux"):
        TransformerEncoderLayer(INNER, 2, activation="relux")


def test_heads_divide_the_width_unless_they_have_a_size():
    x = random(1, 3, HIDDEN)
    with pytest.raises(ValueError, match=r"`num_heads` must divide .*num_heads=3, .*width=8"):
        TransformerEncoderLayer(INNER, 3)(x)
    assert TransformerEncoderLayer(INNER, 3, key_dim=5)(x).shape == x.shape

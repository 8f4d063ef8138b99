import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    FeedForward,
    MultiHeadAttention,
    PaddingMask,
    ResidualBlock,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.layers.layer_contract import check_layer_contract
from tests.layers.numpy_layers import layer_norm, multi_head_attention, random

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


def self_kernels(attention):
    fused = np.asarray(attention.projections["query_key_value"].kernel, "float64")
    return (
        *np.split(fused, 3, axis=1),
        np.asarray(attention.projections["output"].kernel, "float64"),
    )


def feed_forward(layer, x):
    w1, b1, w2, b2 = (np.asarray(weight, "float64") for weight in layer.weights)
    return np.maximum(x @ w1 + b1, 0) @ w2 + b2


def block(layer, x, sublayer, shortcut=0):
    gamma, beta = (np.asarray(weight, "float64") for weight in layer.norm.weights)
    if layer.normalize_first:
        return x + sublayer(layer_norm(x, gamma, beta))
    return layer_norm(layer.scale * x + sublayer(x) + shortcut, gamma, beta)


def last_block(layer, hidden, inputs):
    return block(
        layer.feed_forward_block,
        hidden,
        lambda x: feed_forward(layer.feed_forward, x),
        inputs if layer.b2t_connection else 0,
    )


@pytest.mark.parametrize("form", FORMS)
def test_encoder_layer_equals_the_formula(form):
    layer = TransformerEncoderLayer(**options(form))
    inputs = random(1, 5, HIDDEN)
    mask = np.arange(5)[None, None] < 4
    layer(inputs, mask=mask)
    randomize(layer)

    def attend(x):
        full_mask = np.broadcast_to(mask[0], (5, 5))
        return multi_head_attention(x, x, self_kernels(layer.attention), HEADS, full_mask)[0]

    expected = block(layer.attention_block, inputs[0].astype("float64"), attend)
    expected = last_block(layer, expected, inputs[0])
    actual = ops.convert_to_numpy(layer(inputs, mask=mask))[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("form", FORMS)
def test_decoder_layer_equals_the_formula(form):
    layer = TransformerDecoderLayer(**options(form))
    inputs, memory = random(1, 5, HIDDEN), random(1, 7, HIDDEN, seed=1)
    mask = np.arange(7)[None, None] < 6
    layer(inputs, memory, memory_mask=mask)
    randomize(layer)

    def attend_self(x):
        causal = np.tril(np.ones((5, 5), bool))
        return multi_head_attention(x, x, self_kernels(layer.self_attention), HEADS, causal)[0]

    def attend_memory(x):
        cross = layer.cross_attention
        kernels = (
            np.asarray(cross.projections["query"].kernel, "float64"),
            *np.split(np.asarray(cross.projections["key_value"].kernel, "float64"), 2, axis=1),
            np.asarray(cross.projections["output"].kernel, "float64"),
        )
        values = memory[0].astype("float64")
        return multi_head_attention(x, values, kernels, HEADS, np.broadcast_to(mask[0], (5, 7)))[0]

    expected = block(layer.self_attention_block, inputs[0].astype("float64"), attend_self)
    expected = block(layer.cross_attention_block, expected, attend_memory)
    expected = last_block(layer, expected, inputs[0])
    actual = ops.convert_to_numpy(layer(inputs, memory, memory_mask=mask))[0]
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_one_pass_gives_the_outputs_and_both_attentions():
    layer = TransformerDecoderLayer(**options("post-norm"))
    inputs, memory = random(1, 5, HIDDEN), random(1, 7, HIDDEN, seed=1)
    mask = np.arange(7)[None, None] < 6
    expected = ops.convert_to_numpy(layer(inputs, memory, memory_mask=mask))
    outputs, self_scores, cross_scores = layer(
        inputs, memory, memory_mask=mask, return_attention_scores=True
    )
    np.testing.assert_allclose(ops.convert_to_numpy(outputs), expected, atol=1e-6)

    x, values = inputs[0].astype("float64"), memory[0].astype("float64")
    kernels, causal = self_kernels(layer.self_attention), np.tril(np.ones((5, 5), bool))
    attended, weights = multi_head_attention(x, x, kernels, HEADS, causal)
    np.testing.assert_allclose(ops.convert_to_numpy(self_scores)[0], weights, atol=1e-5)

    hidden = block(layer.self_attention_block, x, lambda _: attended)
    cross = layer.cross_attention
    kernels = (
        np.asarray(cross.projections["query"].kernel, "float64"),
        *np.split(np.asarray(cross.projections["key_value"].kernel, "float64"), 2, axis=1),
        np.asarray(cross.projections["output"].kernel, "float64"),
    )
    full_mask = np.broadcast_to(mask[0], (5, 7))
    _, weights = multi_head_attention(hidden, values, kernels, HEADS, full_mask)
    np.testing.assert_allclose(ops.convert_to_numpy(cross_scores)[0], weights, atol=1e-5)


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
        np.testing.assert_allclose(
            ops.convert_to_numpy(output)[:, 0], expected[:, index], atol=1e-5
        )


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
    np.testing.assert_allclose(
        ops.convert_to_numpy(outputs), ops.convert_to_numpy(expected), atol=1e-6
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(scores), ops.convert_to_numpy(expected_scores), atol=1e-6
    )
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


def test_contracts():
    x, memory = random(2, 4, HIDDEN), random(2, 6, HIDDEN)
    everything = {
        **options("pre-norm"),
        "value_dim": 3,
        "dropout": 0.1,
        "attention_dropout": 0.2,
        "activation_dropout": 0.3,
        "activation": "swish",
        "layer_norm_epsilon": 1e-5,
        "kernel_initializer": "he_normal",
        "bias_initializer": "random_normal",
        "use_bias": True,
    }
    mask = np.ones((2, 1, 4), bool)
    check_layer_contract(FeedForward(INNER, dropout=0.1), x)
    check_layer_contract(ResidualBlock(dropout=0.1, normalize_first=True), x, x)
    check_layer_contract(TransformerEncoderLayer(**options("post-norm")), x)
    check_layer_contract(TransformerEncoderLayer(**everything), x, mask=mask)
    check_layer_contract(TransformerDecoderLayer(**options("post-norm")), x, memory)
    check_layer_contract(TransformerDecoderLayer(**everything), x, memory)
    check_layer_contract(TransformerDecoderLayer(**everything), x)
    check_layer_contract(ResidualBlock(dropout=0.1, scale=1.5), x, x, x)
    for form in ("scaled", "b2t"):
        check_layer_contract(TransformerEncoderLayer(**options(form)), x)
        check_layer_contract(TransformerDecoderLayer(**options(form)), x, memory)
    check_layer_contract(
        TransformerDecoderLayer(**options("post-norm"), dtype="mixed_bfloat16"), x, memory
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("intermediate_dim", 0),
        ("num_heads", 2.0),
        ("key_dim", 0),
        ("value_dim", -1),
        ("dropout", 1.5),
        ("attention_dropout", 1.0),
        ("activation_dropout", -0.1),
        ("layer_norm_epsilon", 0.0),
        ("kernel_initializer", None),
        ("use_bias", 0.1),
        ("normalize_first", 1),
        ("bias_initializer", None),
        ("residual_scale", 0),
        ("initial_gain", -1.0),
        ("b2t_connection", 1),
    ],
)
def test_bad_arguments_are_named(name, value):
    for layer_class in (TransformerEncoderLayer, TransformerDecoderLayer):
        with pytest.raises(ValueError, match=f"`{name}` must be .*Received: {name}={value}"):
            layer_class(**{**options("post-norm"), name: value})


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


def test_an_unknown_initializer_is_refused():
    with pytest.raises(ValueError, match="`bias_initializer` must be .*: bias_initializer='ohnes'"):
        FeedForward(INNER, bias_initializer="ohnes")


def test_heads_divide_the_width_unless_they_have_a_size():
    x = random(1, 3, HIDDEN)
    with pytest.raises(ValueError, match=r"`num_heads` must divide .*num_heads=3, .*width=8"):
        TransformerEncoderLayer(INNER, 3)(x)
    assert TransformerEncoderLayer(INNER, 3, key_dim=5)(x).shape == x.shape


@pytest.mark.parametrize(
    ("layer_class", "arguments"),
    [
        (TransformerEncoderLayer, [INNER, 2, 4]),
        (TransformerDecoderLayer, [INNER, 2, 4]),
        (FeedForward, [INNER, 0.1]),
        (ResidualBlock, [0.1]),
        (PaddingMask, [3]),
    ],
)
def test_only_sizes_are_positional(layer_class, arguments):
    with pytest.raises(TypeError, match="positional"):
        layer_class(*arguments)

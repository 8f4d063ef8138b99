"""Restricted self-attention: in blocks, as a matrix with a band mask, and position by position."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
    windowed_attention,
)
from tests.layers.gradients import outputs_and_gradients
from tests.layers.numpy_layers import (
    kernels_of,
    multi_head_attention,
    random,
    transformer_layer,
)

HEADS, DIM, HIDDEN = 2, 4, 8
LONG = 150  # longer than the span of a short window's block, and no multiple of a block


def to_numpy(tensor):
    return ops.convert_to_numpy(tensor)


def band(length, window, is_causal):
    """The mask (length, length) by the definition."""
    half = (window - 1) // 2
    places = range(length)
    return np.array(
        [[i - window < j <= i if is_causal else abs(i - j) <= half for j in places] for i in places]
    )


def windowed_and_full(window, **options):
    """A layer with a window, and one without that has the same weights."""
    layers = [
        MultiHeadAttention(HEADS, DIM, attention_window=size, **options) for size in (window, None)
    ]
    for layer in layers:
        layer.build((None, None, HIDDEN))
    layers[1].set_weights(layers[0].get_weights())
    return layers


@pytest.fixture
def short_blocks(monkeypatch):
    monkeypatch.setattr(windowed_attention, "LEAST_BLOCK", 1)


@pytest.mark.parametrize(
    ("window", "is_causal", "span"),
    [(1, False, 64), (5, False, 68), (5, True, 68), (65, False, 128), (131, True, 260)],
)
def test_blocks_equal_the_formula(window, is_causal, span, spans):
    layer = MultiHeadAttention(HEADS, DIM, value_dim=3, attention_window=window)
    x = random(1, 400, HIDDEN)
    output = to_numpy(layer(x, use_causal_mask=is_causal))
    assert spans == [span]
    values = x[0].astype("float64")
    mask = band(400, window, is_causal)
    expected, _ = multi_head_attention(values, values, kernels_of(layer), HEADS, mask)
    np.testing.assert_allclose(output[0], expected, atol=1e-5)


@pytest.mark.parametrize(
    ("window", "length", "is_causal", "calls"),
    [(1, 9, False, 1), (3, 50, True, 1), (7, 29, False, 1), (7, 9, False, 0), (99, 9, True, 0)],
)
def test_outputs_and_gradients_equal_full_attention_under_a_band_mask(
    window, length, is_causal, calls, short_blocks, spans
):
    layers = windowed_and_full(window, use_bias=True, bias_initializer="random_normal")
    padding = np.arange(length) < np.array([[length], [length - 3]])
    allowed = padding[:, None] & band(length, window, is_causal)
    # What a position that sees nothing gives means nothing.
    factors = random(2, length, HIDDEN, seed=1) * allowed.any(axis=2, keepdims=True)
    inputs = [random(2, length, HIDDEN)]
    found, expected = (
        outputs_and_gradients(
            layer, inputs, factors, attention_mask=mask, use_causal_mask=is_causal, training=True
        )
        for layer, mask in zip(layers, (padding, allowed), strict=True)
    )
    assert len(spans) == calls
    np.testing.assert_allclose(found[0][factors != 0], expected[0][factors != 0], atol=1e-5)
    np.testing.assert_allclose(found[1][0], expected[1][0], atol=1e-5)
    for one, other in zip(found[2].values(), expected[2].values(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5 * np.abs(other).max())


@pytest.mark.parametrize("is_causal", [False, True])
def test_all_masks_of_padding_hold_together_and_rows_without_any_key_are_zero(is_causal, spans):
    """With scores the layer makes the whole matrix: it must be the same everywhere."""
    layer = MultiHeadAttention(HEADS, DIM, attention_window=9)
    x = random(3, LONG, HIDDEN)
    masks = {
        "query_mask": np.arange(LONG) < np.array([[LONG], [70], [0]]),
        "attention_mask": np.random.default_rng(1).random((3, LONG)) < 0.3,
        "key_mask": np.stack([np.arange(LONG) >= 40] * 3),
    }
    output = to_numpy(layer(x, use_causal_mask=is_causal, **masks))
    assert len(spans) == 1
    expected, scores = layer(x, use_causal_mask=is_causal, return_attention_scores=True, **masks)
    assert len(spans) == 1
    np.testing.assert_allclose(output, to_numpy(expected), atol=1e-5)
    scores = to_numpy(scores)
    inside = band(LONG, 9, is_causal)
    assert (scores[:, :, ~inside] == 0).all()
    seen = masks["query_mask"] & masks["attention_mask"] & masks["key_mask"]
    allowed = inside & seen[:, None] & masks["query_mask"][:, :, None]
    sees = allowed.any(axis=2)
    assert 0 < sees.sum() < sees.size
    hidden = np.broadcast_to(~allowed & sees[..., None], (HEADS, *allowed.shape)).swapaxes(0, 1)
    assert (scores[hidden] == 0).all()
    sums = np.broadcast_to(sees[:, None], scores.shape[:3])
    np.testing.assert_allclose(scores.sum(axis=-1), sums, atol=1e-5)
    assert (output[~sees] == 0).all()


def test_a_mask_with_a_row_for_each_position_holds_with_the_window(spans):
    windowed, full = windowed_and_full(9)
    x = random(2, LONG, HIDDEN)
    mask = np.random.default_rng(1).random((2, LONG, LONG)) < 0.7
    mask |= np.eye(LONG, dtype=bool)
    output = to_numpy(windowed(x, attention_mask=mask))
    assert spans == []
    expected = full(x, attention_mask=mask & band(LONG, 9, False))
    np.testing.assert_allclose(output, to_numpy(expected), atol=1e-5)
    # A mask of padding in the shape that `PaddingMask` gives is for all rows.
    padding = np.arange(LONG) < np.array([[LONG], [100]])
    output = to_numpy(windowed(x, attention_mask=padding[:, None]))
    assert len(spans) == 1
    np.testing.assert_allclose(output, to_numpy(windowed(x, attention_mask=padding)), atol=1e-6)


@pytest.mark.tensorflow
@pytest.mark.parametrize("is_causal", [False, True])
def test_a_graph_of_unknown_lengths_and_one_that_xla_compiles(is_causal):
    import tensorflow as tf

    layer = MultiHeadAttention(HEADS, DIM, attention_window=9, use_bias=True)
    layer.build((None, None, HIDDEN))

    def outputs_and_gradient(x, mask):
        with tf.GradientTape() as tape:
            tape.watch(x)
            outputs = layer(x, attention_mask=mask, use_causal_mask=is_causal)
            total = tf.reduce_sum(outputs**2)
        return outputs, tape.gradient(total, x)

    specs = tf.TensorSpec((None, None, HIDDEN)), tf.TensorSpec((None, None), "bool")
    of_any_length = tf.function(outputs_and_gradient, input_signature=specs)
    of_a_length = tf.function(outputs_and_gradient, jit_compile=True)
    for length in (1, 5, 63, 64, 65, 129, 200):
        x = tf.constant(random(2, length, HIDDEN))
        mask = tf.constant(np.arange(length) < np.array([[length], [max(1, length - 2)]]))
        expected = outputs_and_gradient(x, mask)
        for function in (of_any_length, of_a_length) if length == 200 else (of_any_length,):
            for one, other in zip(function(x, mask), expected, strict=True):
                np.testing.assert_allclose(one, other, atol=1e-5)
    empty = of_any_length(tf.zeros((2, 0, HIDDEN)), tf.zeros((2, 0), "bool"))
    assert [tuple(tensor.shape) for tensor in empty] == [(2, 0, HIDDEN)] * 2


@pytest.mark.tensorflow
@pytest.mark.parametrize("window", [None, 9])
def test_no_boolean_is_transposed(window):
    """TensorFlow would log an error on CPUs that oneDNN has no kernel for."""
    import tensorflow as tf

    layer = MultiHeadAttention(HEADS, DIM, attention_window=window)
    layer.build((None, None, HIDDEN))
    function = tf.function(lambda x, mask: layer(x, query_mask=mask, attention_mask=mask))
    specs = tf.TensorSpec((None, None, HIDDEN)), tf.TensorSpec((None, None), "bool")
    operations = function.get_concrete_function(*specs).graph.get_operations()
    transposed = {out.dtype for op in operations if op.type == "Transpose" for out in op.outputs}
    assert transposed == {tf.float32}


def shapes_of_a_training_pass(layer, length):
    """The shapes of all arrays that the forward pass and the gradient compute."""
    x = np.zeros((1, length, HIDDEN), "float32")
    if keras.backend.backend() == "jax":
        import jax

        values = [weight.value for weight in layer.trainable_weights]
        others = [weight.value for weight in layer.non_trainable_variables]

        def total(values, x):
            return ops.sum(layer.stateless_call(values, others, x, training=True)[0])

        jaxpr = jax.make_jaxpr(jax.grad(total, argnums=(0, 1)))(values, x)
        return [var.aval.shape for eqn in jaxpr.eqns for var in eqn.outvars]
    if keras.backend.backend() == "torch":
        return shapes_of_a_pass_on_torch(layer, x)
    import tensorflow as tf

    def gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(layer(x, training=True))
        return tape.gradient(total, [x, *layer.trainable_weights])

    graph = tf.function(gradient).get_concrete_function(tf.constant(x)).graph
    return [tuple(out.shape) for node in graph.get_operations() for out in node.outputs]


def shapes_of_a_pass_on_torch(layer, x):
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    shapes = []

    class Recorded(TorchDispatchMode):
        def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
            results = operation(*args, **(kwargs or {}))
            shapes.extend(tuple(r.shape) for r in keras.tree.flatten(results) if ops.is_tensor(r))
            return results

    x = torch.tensor(x, requires_grad=True)
    with Recorded():
        layer(x, training=True).sum().backward()
    return shapes


def test_no_array_is_as_large_as_the_pairs_of_positions():
    length = 1024
    windowed, full = windowed_and_full(9, dropout=0.1)
    windowed, full = (
        max(math.prod(shape) for shape in shapes_of_a_training_pass(layer, length))
        for layer in (windowed, full)
    )
    assert full >= HEADS * length**2
    assert windowed <= HEADS * length * (64 + 8)


def test_dropout_acts_on_the_weights_in_blocks(spans):
    layer = MultiHeadAttention(1, 1, attention_window=65, dropout=0.5)
    x = np.ones((1, 2000, 1), "float32")
    layer(x)
    layer.set_weights([np.array([[0.0, 0.0, 1.0]]), np.array([[1.0]])])  # the mean of the window
    np.testing.assert_allclose(to_numpy(layer(x, training=False)), 1, atol=1e-5)
    output = to_numpy(layer(x, training=True))
    assert len(spans) == 3
    assert output.mean() == pytest.approx(1, abs=0.02)
    # Each of 65 weights is dropped or doubled.
    assert output[:, 100:-100].std() == pytest.approx(1 / math.sqrt(65), rel=0.1)


def test_softmax_is_float32_under_a_mixed_policy(spans):
    layer = MultiHeadAttention(HEADS, DIM, attention_window=65, dtype="mixed_bfloat16")
    x = random(1, 300, HIDDEN)
    output = layer(x)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    exact = MultiHeadAttention(HEADS, DIM, attention_window=65)
    exact.build(x.shape)
    exact.set_weights(layer.get_weights())
    expected = to_numpy(exact(x))
    assert len(spans) == 2
    error = np.abs(np.asarray(ops.cast(output, "float32")) - expected)
    assert error.max() < 0.02 * np.abs(expected).max()


@pytest.mark.parametrize("layer_class", [TransformerEncoderLayer, TransformerDecoderLayer])
def test_a_transformer_layer_equals_the_formula(layer_class, spans):
    layer = layer_class(12, HEADS, attention_window=7)
    is_decoder = layer_class is TransformerDecoderLayer
    inputs, memory = random(1, LONG, HIDDEN), random(1, 90, HIDDEN, seed=1)
    call_arguments = (inputs, memory) if is_decoder else (inputs,)
    layer(*call_arguments)
    for number, weight in enumerate(layer.weights):
        weight.assign(random(*weight.shape, seed=number + 10) / 2)
    spans.clear()
    actual = to_numpy(layer(*call_arguments))[0]
    assert spans == [64 + 6]

    of_memory = ()
    if is_decoder:  # all of the memory is seen
        of_memory = memory[0], np.ones((LONG, 90), bool)
        assert layer.cross_attention.attention_window is None
    mask, x = band(LONG, 7, is_decoder), inputs[0].astype("float64")
    expected, _ = transformer_layer(layer, x, mask, *of_memory)
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


def test_attention_to_a_value_has_no_window():
    layer = MultiHeadAttention(HEADS, DIM, attention_window=3)
    x = random(1, 5, HIDDEN)
    with pytest.raises(ValueError, match=r"must be None for attention to `value`.*window=3"):
        layer(x, x)


def test_the_largest_window_sees_everything():
    windowed, full = windowed_and_full(2**31 - 1)
    x = random(1, 70, HIDDEN)
    for is_causal in (False, True):
        output, expected = (
            to_numpy(layer(x, use_causal_mask=is_causal)) for layer in (windowed, full)
        )
        np.testing.assert_allclose(output, expected, atol=1e-6)

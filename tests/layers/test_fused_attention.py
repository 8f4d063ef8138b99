"""Attention of long sequences by Keras's own operation, which has fused kernels on some devices."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MultiHeadAttention, PaddingMask, TransformerDecoderLayer
from keras_transformer.layers import multi_head_attention as module
from keras_transformer.layers.attention_masks import causal_mask
from tests.layers.numpy_layers import random

LONG, HIDDEN = module.FUSED_LENGTH, 8


def mask_of(*lengths):
    return PaddingMask()(np.arange(LONG)[None] < np.array(lengths)[:, None])


def by_weights(layer, *inputs, mask=None):
    """The layer's output by its own attention weights, as NumPy."""
    output, _ = layer(*inputs, attention_mask=mask, return_attention_scores=True)
    return ops.convert_to_numpy(output)


def test_long_self_attention_is_fused_and_the_same(fused):
    layer, x = MultiHeadAttention(2, 4), random(2, LONG, HIDDEN)
    for mask in (None, causal_mask(LONG), mask_of(LONG, 75)):
        output = ops.convert_to_numpy(layer(x, attention_mask=mask))
        np.testing.assert_allclose(output, by_weights(layer, x, mask=mask), atol=2e-6)
    assert fused == [LONG] * 3


def test_long_attention_to_a_memory_is_fused_and_the_same(fused):
    layer = MultiHeadAttention(2, 4, use_bias=True)
    x, memory = random(2, LONG + 2, HIDDEN), random(2, LONG, 6, seed=1)
    mask = mask_of(7, LONG)
    output = ops.convert_to_numpy(layer(x, memory, attention_mask=mask))
    np.testing.assert_allclose(output, by_weights(layer, x, memory, mask=mask), atol=2e-6)
    assert fused == [LONG + 2]


def test_gradients_are_the_same(fused):
    """With a row of padding alone too, which batches are filled up with: it gives no NaN."""
    x, target = random(2, LONG, HIDDEN), random(2, LONG, HIDDEN, seed=1)
    target_weights = np.array([[1.0], [0.0]], "float32")
    mask = ops.convert_to_numpy(mask_of(300, 0))
    inputs = keras.Input((LONG, HIDDEN)), keras.Input((1, LONG), dtype="bool")
    layer = MultiHeadAttention(2, 4)
    model = keras.Model(inputs, layer(inputs[0], attention_mask=inputs[1]))
    start = model.get_weights()
    updated, traces = [], []
    for switch in (keras.config.enable_flash_attention, keras.config.disable_flash_attention):
        switch()
        try:
            model.set_weights(start)
            model.compile(keras.optimizers.SGD(100.0), "mse")
            model.train_on_batch([x, mask], target, sample_weight=target_weights)
        finally:
            keras.config.enable_flash_attention()  # as it is by default
        updated.append(model.get_weights())
        traces.append(len(fused))
    assert 0 < traces[0] == traces[1]
    for before, one, other in zip(start, *updated, strict=True):
        assert np.abs(one - before).max() > 1e-3
        np.testing.assert_allclose(one, other, atol=1e-5)


def error_of_means():
    """What the processor's own means of bfloat16 are off by: some keep their sums in it too."""
    weights = np.abs(random(1, LONG, LONG))
    pair = weights / weights.sum(-1, keepdims=True), random(1, LONG, HIDDEN, seed=1)
    rounded = [ops.cast(each, "bfloat16") for each in pair]
    exact = ops.einsum("bqk,bkd->bqd", *(ops.cast(each, "float32") for each in rounded))
    found = ops.cast(ops.einsum("bqk,bkd->bqd", *rounded), "float32")
    found, exact = map(ops.convert_to_numpy, (found, exact))
    return np.abs(found - exact).max() / np.abs(exact).max()


def test_low_precision_keeps_a_float32_softmax(fused):
    layer = MultiHeadAttention(2, 4, dtype="mixed_bfloat16")
    x = random(1, LONG, HIDDEN)
    output = layer(x)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    exact = MultiHeadAttention(2, 4)
    exact.build(x.shape)
    exact.set_weights(layer.get_weights())
    # A sum of 512 weights rounded to bfloat16 would be off by whole percents.
    expected = by_weights(exact, x)
    error = np.abs(np.asarray(ops.cast(output, "float32")) - expected)
    assert error.max() < (0.02 + error_of_means()) * np.abs(expected).max()
    assert fused == [LONG]


def test_a_decoder_layer_is_fused_and_its_scores_are_not(fused):
    layer = TransformerDecoderLayer(16, 2)
    x, memory = random(1, LONG, HIDDEN), random(1, LONG, HIDDEN, seed=1)
    output = ops.convert_to_numpy(layer(x, memory))
    assert fused == [LONG] * 2
    attended, *scores = layer(x, memory, return_attention_scores=True)
    np.testing.assert_allclose(output, ops.convert_to_numpy(attended), atol=1e-5)
    assert [tuple(score.shape) for score in scores] == [(1, 2, LONG, LONG)] * 2
    assert fused == [LONG] * 2


@pytest.mark.parametrize(
    ("options", "training", "length"),
    [
        ({"dropout": 0.1}, True, LONG),  # fused kernels have no dropout
        ({"value_dim": 6}, False, LONG),
        ({}, False, LONG - 2),
        ({}, False, LONG + 1),  # cuDNN's gradients need even lengths
    ],
)
def test_what_is_not_fused(fused, options, training, length):
    layer = MultiHeadAttention(2, 4, **options)
    layer(random(1, length, HIDDEN), training=training)
    assert fused == []


def test_dropout_that_is_not_active_does_not_matter(fused):
    MultiHeadAttention(2, 4, dropout=0.1)(random(1, LONG, HIDDEN), training=False)
    assert fused == [LONG]


def test_the_switch_of_keras_switches_it_off(fused):
    layer, x = MultiHeadAttention(2, 4), random(1, LONG, HIDDEN)
    keras.config.disable_flash_attention()
    try:
        layer(x)
    finally:
        keras.config.enable_flash_attention()
    assert fused == []

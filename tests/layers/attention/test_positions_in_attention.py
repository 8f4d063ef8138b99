"""Positions that act inside attention: rotary ones, and a kind of one's own that adds to logits."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    PositionalEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.positions import RotaryPositions
from tests.layers.numpy_layers import kernels_of, random, softmax

HEADS, DIM, HIDDEN, LENGTH = 2, 6, 8, 7
KINDS = ["rotary", "alibi"]


def turned(vectors, start=0):
    """Vectors (length, dim) turned, pair by pair, as complex numbers in float64."""
    half = vectors.shape[1] // 2
    points = vectors[:, :half] + 1j * vectors[:, half:]
    frequencies = 10000.0 ** (-2.0 * np.arange(half) / vectors.shape[1])
    points = points * np.exp(1j * np.outer(start + np.arange(len(vectors)), frequencies))
    return np.concatenate([points.real, points.imag], axis=1)


def expected_attention(layer, x, mask):
    """The output (length, hidden) of a layer for a sentence, in float64."""
    *kernels, output = kernels_of(layer)
    parts = [x @ kernel for kernel in kernels]
    heads = []
    distances = np.abs(np.subtract.outer(np.arange(len(x)), np.arange(len(x))))
    for head, (query, key, value) in enumerate(
        zip(*(np.split(part, HEADS, axis=1) for part in parts), strict=True), start=1
    ):
        if layer.positions == "rotary":
            logits = turned(query) @ turned(key).T / np.sqrt(DIM)
        else:
            logits = query @ key.T / np.sqrt(DIM) - 2.0 ** (-8 * head / HEADS) * distances
        heads.append(softmax(np.where(mask, logits, -np.inf)) @ value)
    return np.concatenate(heads, axis=1) @ output


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_equals_the_formula(kind, is_causal, alibi):
    layer = MultiHeadAttention(HEADS, DIM, positions=kind)
    x, lengths = random(2, LENGTH, HIDDEN), (LENGTH, 4)
    padding = np.arange(LENGTH) < np.array(lengths)[:, None]
    output = layer(x, attention_mask=padding, use_causal_mask=is_causal)
    for row in range(2):
        mask = np.broadcast_to(padding[row], (LENGTH, LENGTH))
        mask = np.tril(mask) if is_causal else mask
        expected = expected_attention(layer, x[row], mask)
        np.testing.assert_allclose(output[row], expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_causal", [False, True])
def test_blocks_of_a_window_equal_the_formula(kind, is_causal, alibi):
    layer = MultiHeadAttention(HEADS, DIM, positions=kind, attention_window=9)
    x = random(1, 150, HIDDEN)
    distances = np.subtract.outer(np.arange(150), np.arange(150))
    mask = (distances >= 0) & (distances < 9) if is_causal else np.abs(distances) < 5
    output = layer(x, use_causal_mask=is_causal)
    expected = expected_attention(layer, x[0], mask)
    np.testing.assert_allclose(output[0], expected, atol=1e-5)
    output, _ = layer(x, use_causal_mask=is_causal, return_attention_scores=True)
    np.testing.assert_allclose(output[0], expected, atol=1e-5)


@pytest.mark.parametrize(("kind", "is_fused"), [("rotary", True), ("alibi", False)])
def test_long_sequences(kind, is_fused, fused, alibi):
    layer, x = MultiHeadAttention(HEADS, DIM, positions=kind), random(1, 512, HIDDEN)
    output = layer(x)
    assert len(fused) == is_fused
    expected, _ = layer(x, return_attention_scores=True)
    np.testing.assert_allclose(output, expected, atol=2e-6)


def test_scores_depend_on_distances_alone():
    query, key = random(5, DIM), random(5, DIM, seed=1)
    places = np.arange(5)
    logits = []
    for shift in (0, 40):
        pair = [RotaryPositions.transform(x, places + shift) for x in (query, key)]
        logits.append(ops.matmul(pair[0], ops.transpose(pair[1])))
    np.testing.assert_allclose(logits[0], logits[1], atol=2e-5)
    np.testing.assert_allclose(logits[0], turned(query) @ turned(key).T, atol=1e-5)
    assert np.abs(ops.convert_to_numpy(logits[0]) - query @ key.T).max() > 0.1


def test_the_convention_is_that_of_keras_hub():
    keras_hub = pytest.importorskip("keras_hub")
    x = random(2, 40, DIM)
    expected = keras_hub.layers.RotaryEmbedding()(x, start_index=3)
    found = RotaryPositions.transform(ops.convert_to_tensor(x), np.arange(3, 43))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_angles_and_products_are_float32_under_a_mixed_policy():
    x = ops.cast(random(1001, DIM), "bfloat16")
    found = RotaryPositions.transform(x, np.arange(1001))
    assert keras.backend.standardize_dtype(found.dtype) == "bfloat16"
    x, found = (ops.convert_to_numpy(ops.cast(each, "float32")) for each in (x, found))
    np.testing.assert_allclose(found, turned(x), rtol=2**-8, atol=1e-3)


def test_an_embedding_adds_nothing():
    layer = PositionalEmbedding(10, 4, positions="rotary")
    ids = np.array([[3, 5, 3]])
    output = layer(ids)
    np.testing.assert_allclose(output, 2 * np.asarray(layer.token_embedding.matrix)[ids], atol=1e-6)
    cache = layer.start_cache(1, 1)
    for index in range(3):
        vectors, cache = layer.step(ids[:, index : index + 1], index, cache)
        np.testing.assert_allclose(vectors[:, 0], output[:, index], atol=1e-6)


@pytest.mark.parametrize("layer_class", [TransformerEncoderLayer, TransformerDecoderLayer])
def test_only_self_attention_has_positions(layer_class):
    layer, plain = (layer_class(12, HEADS, positions=kind) for kind in ("rotary", None))
    inputs = [random(1, LENGTH, HIDDEN)]
    if layer_class is TransformerDecoderLayer:
        inputs.append(random(1, 4, HIDDEN, seed=1))
    for each in (layer, plain):
        each(*inputs)
    plain.set_weights(layer.get_weights())
    difference = layer(*inputs) - plain(*inputs)
    assert np.abs(ops.convert_to_numpy(difference)).max() > 1e-3
    if layer_class is TransformerDecoderLayer:
        assert [layer.self_attention.positions, layer.cross_attention.positions] == ["rotary", None]


@pytest.mark.parametrize(
    ("make", "rule"),
    [
        (
            lambda: MultiHeadAttention(2, 5, positions="rotary"),
            '`key_dim` must be even with `positions="rotary"`. Received: key_dim=5',
        ),
        (
            lambda: MultiHeadAttention(2, 4, positions="learned"),
            "`positions` must be None or a kind that acts .* Received: positions='learned'",
        ),
        (
            lambda: TransformerEncoderLayer(12, 2, positions="sinusoidal"),
            "`positions` must be None or a kind that acts .* Received: positions='sinusoidal'",
        ),
        (lambda: TransformerDecoderLayer(12, 2, positions="none"), "`positions` must be .*'none'"),
        (
            lambda: MultiHeadAttention(2, 4, positions="rotary")(*[random(1, 3, 8)] * 2),
            "`positions` must be None for attention to `value`. Received: positions='rotary'",
        ),
    ],
)
def test_what_is_refused(make, rule):
    with pytest.raises(ValueError, match=rule):
        make()

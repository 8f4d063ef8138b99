"""Masks that Keras passes from layer to layer, and masks that are given."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.layers.numpy_layers import random

LENGTH, HIDDEN = 4, 8
# Rows of padded ids, at the end, at the start and between; one is full.
IDS = np.array([[5, 3, 2, 0], [0, 1, 4, 6], [7, 2, 5, 3], [6, 0, 1, 2]])
TARGETS = np.array([[5, 6, 7, 0], [0, 2, 4, 3], [1, 2, 3, 4], [3, 0, 3, 5]])
SIZES = {"intermediate_dim": 12, "num_heads": 2}


def masked_model(normalize_first):
    """Two encoder layers and a decoder layer behind embeddings with masks, and a mean of tokens."""
    options = {**SIZES, "normalize_first": normalize_first, "use_bias": True}
    source_ids = keras.Input((None,), dtype="int32")
    target_ids = keras.Input((None,), dtype="int32")
    memory = keras.layers.Embedding(8, HIDDEN, mask_zero=True)(source_ids)
    for _ in range(2):
        memory = TransformerEncoderLayer(**options)(memory)
    hidden = keras.layers.Embedding(8, HIDDEN, mask_zero=True)(target_ids)
    hidden = TransformerDecoderLayer(**options)(hidden, memory)
    pooled = keras.layers.GlobalAveragePooling1D()(hidden)
    model = keras.Model([source_ids, target_ids], [memory, hidden, pooled])
    generator = np.random.default_rng(0)
    for weight in model.weights:
        weight.assign(generator.normal(size=weight.shape, scale=0.3))
    return model


def outputs_of(model, batch):
    return [ops.convert_to_numpy(output) for output in model([IDS[:batch], TARGETS[:batch]])]


def difference_to_rows_alone(model, batch):
    """The largest difference at real tokens between a padded batch and its rows, one by one."""
    found = outputs_of(model, batch)
    differences = []
    for row, (source, target) in enumerate(zip(IDS[:batch], TARGETS[:batch], strict=True)):
        alone = model([source[source > 0][None], target[target > 0][None]])
        memory, hidden, pooled = (ops.convert_to_numpy(output)[0] for output in alone)
        differences += [
            np.abs(found[0][row][source > 0] - memory).max(),
            np.abs(found[1][row][target > 0] - hidden).max(),
            np.abs(found[2][row] - pooled).max(),
        ]
    return max(differences)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_padding_changes_nothing_at_real_tokens(normalize_first, tmp_path):
    model = masked_model(normalize_first)
    for batch in (1, 3, LENGTH):
        assert difference_to_rows_alone(model, batch) < 1e-5
    model.save(tmp_path / "model.keras")
    reloaded = keras.models.load_model(tmp_path / "model.keras")
    for batch in (1, 3, LENGTH):
        assert difference_to_rows_alone(reloaded, batch) < 1e-5
    expected, found = outputs_of(model, LENGTH), outputs_of(reloaded, LENGTH)
    compiled = reloaded.predict([IDS, TARGETS], verbose=0)
    for one, other, another in zip(expected, found, compiled, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
        np.testing.assert_allclose(one, another, atol=1e-5)


def test_a_mask_given_is_as_one_carried():
    embedding = keras.layers.Embedding(8, HIDDEN, mask_zero=True)
    masked = embedding(IDS)
    plain, is_token = ops.convert_to_tensor(ops.convert_to_numpy(masked)), IDS != 0
    layers = [
        MultiHeadAttention(2, 4),
        TransformerEncoderLayer(**SIZES),
        TransformerDecoderLayer(**SIZES),
    ]
    for layer, name in zip(layers, ["query_mask", "mask", "mask"], strict=True):
        expected = ops.convert_to_numpy(layer(masked))[is_token]
        for mask in (is_token, is_token.astype("int32"), is_token[:, None].repeat(LENGTH, axis=1)):
            if mask.ndim == 2 or name == "mask":
                found = ops.convert_to_numpy(layer(plain, **{name: mask}))[is_token]
                np.testing.assert_allclose(found, expected, atol=1e-6)
        assert np.abs(ops.convert_to_numpy(layer(plain))[is_token] - expected).max() > 1e-3


def test_a_mask_given_and_one_carried_hold_together():
    """A causal mask does not uncover the padding."""
    masked = keras.layers.Embedding(8, HIDDEN, mask_zero=True)(IDS)
    causal = np.tril(np.ones((1, LENGTH, LENGTH), bool))
    layer = TransformerEncoderLayer(**SIZES)
    _, scores = layer(masked, mask=causal, return_attention_scores=True)
    allowed = causal & (IDS != 0)[:, None]
    scores = ops.convert_to_numpy(scores).max(axis=1)[IDS != 0]  # rows of real tokens
    assert ((scores > 0) == allowed[IDS != 0]).all()
    for call_masked in (layer(masked, use_causal_mask=True), layer(masked, mask=causal)):
        np.testing.assert_array_equal(call_masked, layer(masked, mask=causal))


@pytest.mark.parametrize("rank", [1, 4])
def test_masks_of_other_ranks_are_refused(rank):
    x, mask = random(2, LENGTH, HIDDEN), np.ones((2, LENGTH, LENGTH, 1)[:rank], bool)
    symbols = keras.KerasTensor(x.shape), keras.KerasTensor(mask.shape, "bool")
    layer = TransformerDecoderLayer(**SIZES)
    layer(x, x)
    for call, name in (
        (lambda x, mask: MultiHeadAttention(2, 4)(x, attention_mask=mask), "attention_mask"),
        (lambda x, mask: MultiHeadAttention(2, 4)(x, query_mask=mask), "query_mask"),
        (lambda x, mask: TransformerEncoderLayer(**SIZES)(x, mask=mask), "mask"),
        (lambda x, mask: layer(x, x, mask=mask), "mask"),
        (lambda x, mask: layer(x, x, memory_mask=mask), "memory_mask"),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be a padding mask.*Received"):
            call(x, mask)
        if name != "query_mask":
            with pytest.raises(ValueError, match=f"`{name}` must be a padding mask.*Received"):
                call(*symbols)

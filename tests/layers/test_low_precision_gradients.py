"""Gradients that are sums over thousands of rows: bfloat16 must not add them up."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    SSRU,
    FeedForward,
    MultiHeadAttention,
    PositionalEmbedding,
    ResidualBlock,
    TokenEmbedding,
)
from keras_transformer.training import training_model

ROWS, LENGTH, DIM = 400, 25, 8  # 10,000 vectors


class Product(keras.losses.Loss):
    """The sum of outputs times given numbers, which are then the gradients of the outputs."""

    def __init__(self):
        super().__init__(reduction="sum")

    def __call__(self, factors, outputs, sample_weight=None):
        return ops.sum(ops.multiply(ops.cast(outputs, "float32"), factors))


def gradients(layer, inputs, symbols, weights=None):
    """The start weights of a layer and the gradients of all its weights, by one step of SGD."""
    # A residual block takes what went into a sub-layer and what came out of it.
    both = [symbols] * (2 if isinstance(layer, ResidualBlock) else 1)
    model = keras.Model(symbols, layer(*both))
    if weights is not None:
        model.set_weights(weights)
    if keras.backend.backend() == "tensorflow":
        model = training_model(model)  # its updates wait for all gradients
    model.compile(keras.optimizers.SGD(1.0), Product())
    before = model.get_weights()
    # Of one sign: a sum in bfloat16 stands still when it is some hundred times as large as a row.
    factors = np.random.default_rng(0).normal(1, 0.3, size=(ROWS, LENGTH, DIM)).astype("float32")
    model.train_on_batch(inputs, factors, np.ones((ROWS, LENGTH), "float32"))
    return before, [old - new for old, new in zip(before, model.get_weights(), strict=True)]


@pytest.mark.parametrize(
    "make",
    [
        lambda dtype: FeedForward(16, dtype=dtype),
        lambda dtype: SSRU(dtype=dtype),
        lambda dtype: MultiHeadAttention(2, 4, use_bias=True, dtype=dtype),
        lambda dtype: ResidualBlock(dtype=dtype),
        lambda dtype: TokenEmbedding(10, DIM, dtype=dtype),
        lambda dtype: PositionalEmbedding(
            10, DIM, positions="learned", max_length=LENGTH, dtype=dtype
        ),
        pytest.param(
            lambda dtype: PositionalEmbedding(
                10, DIM, positions="words", word_starts=[2], dtype=dtype
            ),
            marks=pytest.mark.core,  # JAX adds up in the dtype of what it gathers from
        ),
    ],
    ids=["feed_forward", "ssru", "attention", "norm", "tokens", "positions", "words"],
)
def test_bfloat16_gradients_of_many_rows(make):
    generator = np.random.default_rng(1)
    exact, rounded = make("float32"), make("mixed_bfloat16")
    if "embedding" in exact.name:
        # Most tokens are the same one, as a comma is in text.
        inputs = np.where(generator.random((ROWS, LENGTH)) < 0.9, 1, 2).astype("int32")
        symbols = keras.Input((LENGTH,), dtype="int32")
    else:
        inputs = generator.normal(size=(ROWS, LENGTH, DIM)).astype("float32")
        symbols = keras.Input((LENGTH, DIM))
    weights, expected = gradients(exact, inputs, symbols)
    _, found = gradients(rounded, inputs, symbols, weights)
    for weight, one, other in zip(exact.weights, expected, found, strict=True):
        error = np.abs(one - other).max() / np.abs(one).max()
        assert error < 0.02, weight.path

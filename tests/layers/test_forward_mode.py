"""Forward mode of JAX, `jax.jvp` and `jax.jacfwd`, through layers, a model and the loss."""

import keras
import numpy as np
import pytest

from keras_transformer.layers import (
    FeedForward,
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.models import build_language_model
from tests.layers.numpy_layers import random

pytestmark = [
    pytest.mark.core,
    pytest.mark.skipif(keras.backend.backend() != "jax", reason="forward mode is JAX's"),
]
LAYERS = {
    "attention": lambda: MultiHeadAttention(2, 4),
    "normalized attention": lambda: MultiHeadAttention(2, 4, qk_norm=True, positions="rotary"),
    "attention in blocks": lambda: MultiHeadAttention(2, 4, attention_window=3),
    "feed-forward": lambda: FeedForward(16, activation="gelu"),
    "encoder": lambda: TransformerEncoderLayer(16, 2),
    "decoder": lambda: TransformerDecoderLayer(16, 2, normalize_first=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_both_modes_have_the_same_jacobian(name):
    import jax

    layer, x = LAYERS[name](), random(1, 4, 8)
    layer(x)
    forward, reverse = (transform(layer)(x) for transform in (jax.jacfwd, jax.jacrev))
    assert np.abs(forward).max() > 1e-3
    np.testing.assert_allclose(forward, reverse, atol=1e-5)


def test_the_change_of_the_logits_along_a_direction():
    import jax

    model = build_language_model("tiny", vocabulary_size=12)
    ids = np.array([[1, 5, 7]], "int32")
    weights = [weight.value for weight in model.trainable_variables]
    states = [variable.value for variable in model.non_trainable_variables]
    generator = np.random.default_rng(0)
    direction = [generator.normal(size=w.shape).astype("float32") / 8 for w in weights]
    loss = LabelSmoothingCrossEntropy(0.1)

    def value(weights):
        logits, _ = model.stateless_call(weights, states, {"token_ids": ids})
        return loss(np.array([[5, 7, 2]]), logits)

    _, change = jax.jvp(value, (weights,), (direction,))
    gradient = jax.grad(value)(weights)
    expected = sum(float((g * d).sum()) for g, d in zip(gradient, direction, strict=True))
    assert float(change) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_second_derivatives_of_the_loss(label_smoothing):
    """The Hessian of a token's loss is that of the log of the sum, whatever the smoothing."""
    import jax

    loss, logits = LabelSmoothingCrossEntropy(label_smoothing), random(5)
    hessian = jax.hessian(lambda x: loss(np.array([[3]]), x[None, None]))(logits)
    probs = np.exp(logits - logits.max()) / np.exp(logits - logits.max()).sum()
    np.testing.assert_allclose(hessian, np.diag(probs) - np.outer(probs, probs), atol=1e-5)

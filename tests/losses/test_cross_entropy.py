"""R-Drop's divergence against both Kullback-Leibler divergences in NumPy float64."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.losses import paired_divergence
from tests.losses.test_label_smoothing_cross_entropy import gradient


def log_softmax(logits):
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def reference(logits):
    pairs = log_softmax(np.asarray(logits, "float64"))
    first, second = pairs[0::2], pairs[1::2]
    one_way = (np.exp(first) * (first - second)).sum(-1)
    other_way = (np.exp(second) * (second - first)).sum(-1)
    return (one_way + other_way) / 2


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
def test_it_is_the_mean_of_both_divergences(scale):
    logits = np.random.default_rng(1).normal(scale=scale, size=(6, 4, 9)).astype("float32")
    found = np.asarray(paired_divergence(logits))
    assert (found.shape, found.dtype) == ((3, 4), "float32")
    np.testing.assert_allclose(found, reference(logits), rtol=1e-5, atol=1e-6)


def test_equal_predictions_are_not_apart():
    logits = np.repeat(np.random.default_rng(2).normal(size=(2, 3, 5)), 2, axis=0)
    np.testing.assert_array_equal(np.asarray(paired_divergence(logits)), np.zeros((2, 3)))


def test_its_gradient_is_that_of_finite_differences():
    rng = np.random.default_rng(3)
    logits, weights = rng.normal(size=(4, 2, 5)), rng.random((2, 2))
    expected, step = np.zeros(logits.shape), 1e-5
    for place in np.ndindex(*logits.shape):
        nearby = np.zeros(logits.shape)
        nearby[place] = step
        change = reference(logits + nearby) - reference(logits - nearby)
        expected[place] = (weights * change).sum() / (2 * step)
    of_each = ops.convert_to_tensor(weights, "float32")
    found = gradient(lambda x: ops.sum(paired_divergence(x) * of_each), logits.astype("float32"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)

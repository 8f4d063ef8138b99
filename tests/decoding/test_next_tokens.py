"""The shortcuts over thousands of logits: they find what the plain ways find."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.next_tokens import FEW, log_of_sum, top_k_of_many


@pytest.mark.parametrize("size", [7, FEW, 5000, 2 * 3 * 7 * 97, 4999, 2 * 2503])
# Of JAX's own top-k, equal values come in any order.
@pytest.mark.parametrize("ties", [False, pytest.param(True, marks=pytest.mark.tensorflow)])
def test_top_k_takes_the_lower_index_of_equal_values(size, ties):
    generator = np.random.default_rng(size)
    values = generator.normal(size=(2, 3, size)).astype("float32")
    if ties:
        values = np.round(values)
        values[0, 0, size // 2 :] = -np.inf
        values[1, 1] = -np.inf
    best, indices = (ops.convert_to_numpy(found) for found in top_k_of_many(values, 6))
    expected = np.argsort(-values, axis=-1, kind="stable")[..., :6]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(best, np.take_along_axis(values, expected, -1))


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_the_log_of_the_sum_is_exact(scale):
    logits = scale * np.random.default_rng(0).normal(size=(4, 3000)).astype("float32")
    wide = logits.astype("float64")
    largest = wide.max(axis=-1, keepdims=True)
    expected = largest + np.log(np.exp(wide - largest).sum(axis=-1, keepdims=True))
    np.testing.assert_allclose(log_of_sum(logits), expected, rtol=1e-6)

"""The shortcuts over thousands of logits: they find what the plain ways find."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import next_tokens
from keras_transformer.decoding.next_tokens import FEW, log_of_sum, maxima_of_blocks, top_k_of_rows


@pytest.mark.parametrize("size", [7, FEW, 5000, 2 * 3 * 7 * 97, 4999, 2 * 2503])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("on_gpu", [False, True])
def test_top_k_takes_the_lower_index_of_equal_values(size, ties, on_gpu, monkeypatch):
    monkeypatch.setattr(next_tokens, "has_accelerator", lambda: on_gpu)
    generator = np.random.default_rng(size)
    values = generator.normal(size=(3, 2, size)).astype("float32")
    offsets, totals = generator.normal(size=(2, 3, 2)).astype("float32")
    if ties:
        # No -0.0, which JAX sorts below 0.0; a score is none.
        values, offsets, totals = (np.round(of) + 0.0 for of in (values, offsets, totals))
        values[0, 0, size // 2 :] = -np.inf
        values[1] = -np.inf
        offsets[2, 1] = -np.inf
    expected = (offsets[..., None] + (values - totals[..., None])).reshape(3, -1)
    places = np.argsort(-expected, axis=-1, kind="stable")[:, :6]
    values, offsets, totals = map(ops.convert_to_tensor, (values, offsets, totals))
    best, columns, rows = (
        ops.convert_to_numpy(found)
        for found in top_k_of_rows(values, maxima_of_blocks(values), offsets, totals, 6)
    )
    np.testing.assert_array_equal(rows * size + columns, places)
    np.testing.assert_array_equal(best, np.take_along_axis(expected, places, -1))


@pytest.mark.parametrize("scale", [1, 30, 1000])
def test_the_log_of_the_sum_is_exact(scale):
    logits = scale * np.random.default_rng(0).normal(size=(2, 4, 3000)).astype("float32")
    wide = logits.astype("float64")
    largest = wide.max(axis=-1)
    expected = largest + np.log(np.exp(wide - largest[..., None]).sum(axis=-1))
    for maxima in (None, maxima_of_blocks(logits)):
        np.testing.assert_allclose(log_of_sum(logits, maxima), expected, rtol=1e-6)

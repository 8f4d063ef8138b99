import numpy as np
import pytest

from keras_transformer.decoding import length_penalty
from keras_transformer.search_options import SearchOptions


def test_literals():
    assert length_penalty(1, 0.6) == 1.0
    assert length_penalty(7, 1.0) == pytest.approx(2.0)
    assert length_penalty(7, 0.6) == pytest.approx(1.5157165665)
    assert length_penalty(7, 0.0) == 1.0
    assert length_penalty(8, 0.5, "power") == pytest.approx(8**0.5)


def test_arrays():
    np.testing.assert_allclose(length_penalty(np.array([1, 7, 19]), 0.5), [1, 2**0.5, 2])


def test_an_exponent_that_would_overflow_is_refused():
    assert SearchOptions(alpha=9.9).alpha == 9.9
    with pytest.raises(ValueError, match="`alpha` must be less than 10. Received: alpha=1e"):
        SearchOptions(alpha=1e300)
    assert length_penalty(np.float32(10_000), np.float32(9.9)) < np.inf

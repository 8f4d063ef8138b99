"""A training on JAX that is killed a hundred times ends as if it had been left alone."""

import pytest

from tests.kills.hundred_kills import assert_a_hundred_kills_change_nothing


@pytest.mark.slow
def test_a_hundred_kills_change_nothing(tmp_path, random_seed):
    assert_a_hundred_kills_change_nothing(tmp_path, "jax", random_seed)

"""A training on TensorFlow that is killed again and again ends as if it had been left alone."""

import pytest

from tests.kills.hundred_kills import assert_kills_change_nothing


@pytest.mark.slow
def test_kills_change_nothing(tmp_path, random_seed, pytestconfig):
    kills = pytestconfig.getoption("--kills")
    assert_kills_change_nothing(tmp_path, "tensorflow", kills, random_seed)

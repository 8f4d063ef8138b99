"""Which settings of a job on a cluster may change while some of its blocks are finished."""

import pytest

from keras_transformer.cli.cluster_job import provisional

LIMITS = {"long_lines", "max_source_length"}


@pytest.mark.parametrize(
    ("begun", "now", "limits_may_change"),
    [
        ({"long_lines": "refuse"}, {"long_lines": "cut"}, True),
        ({"long_lines": "refuse", "max_source_length": 30}, {"max_source_length": 40}, True),
        ({"long_lines": "refuse"}, {"long_lines": "cut", "max_source_length": 30}, False),
        ({"long_lines": "cut"}, {"long_lines": "refuse"}, False),
        ({"max_source_length": 30}, {}, True),  # of `score`
    ],
)
def test_a_limit_may_grow_that_ended_the_job(begun, now, limits_may_change):
    assert (provisional(begun, now) & LIMITS == LIMITS) is limits_may_change


def test_other_settings_may_change_where_they_decide_nothing():
    whole = {"long_lines": "split", "backend": "jax"}
    assert provisional(whole, whole) == set()
    assert "source_language" in provisional({**whole, "long_lines": "cut"}, whole)
    assert "backend" in provisional({"long_lines": "split"}, whole)

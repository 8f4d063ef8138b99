"""Perplexity of log-probabilities, also beyond what floats hold."""

import math

import pytest

from keras_transformer.evaluation import perplexity


def test_it_is_the_exponential_of_the_mean_loss():
    assert perplexity([-1.0, -2.0, 0.0], 4) == pytest.approx(math.exp(0.75))
    assert perplexity([0.0], 3) == 1.0


@pytest.mark.parametrize("nats", [710.0, 1e30, math.inf])
def test_beyond_the_largest_float_it_is_infinite(nats):
    assert perplexity([-2 * nats, 0.0], 2) == math.inf


def test_just_below_it_is_a_number():
    assert math.isfinite(perplexity([-709.0], 1))

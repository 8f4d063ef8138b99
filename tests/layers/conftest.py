"""Fixtures of the tests of layers."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import positions
from keras_transformer.layers.positions import PositionsInAttention, register_positions


@pytest.fixture
def alibi():
    """`positions="alibi"` as one class (Press et al., "Train Short, Test Long", 2022)."""

    @register_positions("alibi")
    class Alibi(PositionsInAttention):
        @classmethod
        def bias(cls, num_heads, targets, sources):
            slopes = 2.0 ** (-8.0 * np.arange(1, num_heads + 1) / num_heads)
            distances = ops.abs(ops.expand_dims(sources, 0) - ops.expand_dims(targets, 1))
            slopes = ops.reshape(ops.convert_to_tensor(slopes, "float32"), (-1, 1, 1))
            return -slopes * ops.cast(distances, "float32")

    yield
    del positions.POSITIONS["alibi"]

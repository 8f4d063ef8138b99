"""Fixtures of the tests of layers."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import multi_head_attention as module
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


@pytest.fixture
def fused(monkeypatch):
    """The lengths of the queries that went through the fused operation."""
    calls = []

    def counted(query, *arguments):
        calls.append(query.shape[-2])
        return fused_attention(query, *arguments)

    fused_attention = module.fused_attention
    monkeypatch.setattr(module, "fused_attention", counted)
    return calls


@pytest.fixture
def spans(monkeypatch):
    """How many keys a block sees, of every call that is computed in blocks."""
    found = []

    def counted(query, key, value, window, *arguments):
        found.append(window.before + window.block + window.after)
        return attend_in_blocks(query, key, value, window, *arguments)

    attend_in_blocks = module.attend_in_blocks
    monkeypatch.setattr(module, "attend_in_blocks", counted)
    return found

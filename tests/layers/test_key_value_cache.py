"""Caches of steps: they fork, grow and stay in place, and the steps equal a causal call."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.key_value_cache import ancestor_mask, start_history, unknown_zero

BATCH, BEAMS, LENGTH, HIDDEN = 2, 3, 6, 8
KINDS = ["fixed", pytest.param("grows", marks=pytest.mark.tensorflow)]
OPTIONS = [
    {},
    {"value_dim": 5, "use_bias": True, "bias_initializer": "random_normal"},
    *({"attention_window": window} for window in (1, 3, 99)),
    *({"positions": kind} for kind in ("rotary", "alibi")),
    *({"positions": kind, "attention_window": 3} for kind in ("rotary", "alibi")),
]


def start_of(kind):
    """`length` and `grows` of a cache."""
    if kind == "grows":
        return unknown_zero(np.zeros((BATCH, 1), "int32")), True
    return LENGTH + 1, False


def name_of(options):
    return "-".join(map(str, options.values())) or "plain"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_hypotheses_fork_without_a_move(options, kind, alibi):
    generator = np.random.default_rng(0)
    layer = MultiHeadAttention(num_heads=2, key_dim=4, **options)
    written = generator.normal(size=(LENGTH, BATCH, BEAMS, HIDDEN)).astype("float32")
    parents = generator.integers(0, BEAMS, (LENGTH, BATCH, BEAMS))
    layer(written[0])

    length, grows = start_of(kind)
    cache = layer.start_cache(BATCH, BEAMS, length, grows=grows)
    ancestors = start_history((BATCH, BEAMS), length, "int32", grows=grows)
    own = ops.convert_to_tensor(np.tile(np.arange(BEAMS, dtype="int32"), (BATCH, 1)))
    paths = np.zeros((BATCH, BEAMS, LENGTH, HIDDEN), "float32")  # all inputs of each hypothesis
    for index in range(LENGTH):
        ancestors = ancestors.write(own, index)
        mask = ancestor_mask(ancestors)
        output, cache = layer.step(ops.convert_to_tensor(written[index]), cache, index, mask)
        paths[:, :, index] = written[index]
        expected = layer(paths.reshape(-1, LENGTH, HIDDEN), use_causal_mask=True)
        expected = ops.convert_to_numpy(expected)[:, index].reshape(BATCH, BEAMS, HIDDEN)
        np.testing.assert_allclose(output, expected, atol=1e-5)
        places = parents[index][..., None]
        values = np.take_along_axis(ops.convert_to_numpy(ancestors.values), places, 1)
        ancestors = type(ancestors)(ops.convert_to_tensor(values))
        paths = np.take_along_axis(paths, places[..., None], 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows_of_their_own", [False, True])
@pytest.mark.parametrize("options", OPTIONS, ids=name_of)
def test_without_a_mask_each_beam_reads_what_it_wrote(options, rows_of_their_own, kind, alibi):
    layer = MultiHeadAttention(num_heads=2, key_dim=4, **options)
    x = np.random.default_rng(0).normal(size=(BATCH, BEAMS, LENGTH, HIDDEN)).astype("float32")
    expected = layer(x.reshape(-1, LENGTH, HIDDEN), use_causal_mask=True)
    expected = ops.convert_to_numpy(expected).reshape(x.shape)
    length, grows = start_of(kind)
    shape = (BATCH * BEAMS, 1) if rows_of_their_own else (BATCH, BEAMS)
    cache = layer.start_cache(*shape, length, grows=grows)
    for index in range(LENGTH):
        output, cache = layer.step(ops.convert_to_tensor(x[:, :, index]), cache, index)
        np.testing.assert_allclose(output, expected[:, :, index], atol=1e-5)
    kept = min(options.get("attention_window", LENGTH), LENGTH) if grows else LENGTH + 1
    assert [history.values.shape[2] for history in cache] == [kept] * 2


def test_a_fixed_history_tells_what_is_written():
    history = start_history((1, 2), 4, "int32")
    assert (ops.convert_to_numpy(history.values) == -1).all()
    history = history.write(ops.convert_to_tensor([[5, 6]]), 2)
    assert ops.convert_to_numpy(history.values).tolist() == [[[-1, -1, 5, -1], [-1, -1, 6, -1]]]
    assert ops.convert_to_numpy(history.written(2)).tolist() == [True, True, True, False]

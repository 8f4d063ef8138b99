"""The layers beside Keras's own: every part is timed forwards and in training."""

import pytest

from tests.python_programs import run_python


@pytest.mark.slow
def test_each_part_has_two_ratios():
    sizes = "--rows 2 --length 4 --width 8 --heads 2 --layers 1 --rounds 3"
    done = run_python("-m", "benchmarks.layer_speed", *sizes.split(), KERAS_BACKEND="jax")
    first, _, *rows = done.stdout.splitlines()
    assert first == "jax, float32, (2, 4, 8), dropout 0.1"
    assert [row[:18].strip() for row in rows] == [
        "encoder layer",
        "attention",
        "feed-forward",
        "normalization",
    ]
    for row in rows:
        assert all(float(ratio.split()[0]) > 0 for ratio in row.split("= ")[1:])
        assert row.count("=") == 2

"""The benchmark of the paper's Table 1: its fit, its path lengths, its tables, a run."""

import json
import re
import sys

import keras
import numpy as np
import pytest

from benchmarks.table1.__main__ import main
from benchmarks.table1.compiled_pass import compiled_pass, create_layer
from benchmarks.table1.figure import draw
from benchmarks.table1.growth import exponent
from benchmarks.table1.layer_types import LAYER_TYPES, NAMES, Sizes
from benchmarks.table1.measuring import Measuring
from benchmarks.table1.report import (
    Measurements,
    heading,
    memory_row,
    record,
    summary,
    time_row,
)
from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cli.program import run_command

BY_NAME = {layer_type.name: layer_type for layer_type in LAYER_TYPES}
SMALL = Sizes(hidden_dim=8, num_heads=2, window=5, kernel_size=3)


def test_the_exponent_of_a_power_is_found():
    lengths = [1024, 2048, 4096, 8192]
    assert exponent({n: 3e-6 * n**1.5 for n in lengths}) == pytest.approx(1.5)
    # Errors that are as large on both sides of the line; values outside of the range do not count.
    factors = [1.1, 1 / 1.1, 1 / 1.1, 1.1]
    values = {n: factor * n**2 for n, factor in zip(lengths, factors, strict=True)}
    assert exponent({64: 1e9, 512: 1e9, **values, 16384: 1.0}) == pytest.approx(2.0)
    assert exponent({512: 1.0, 1024: 2.0}) is None
    assert exponent({1024: 0.0, 2048: 2.0}) is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [("full", 1), ("fused", 1), ("windowed", 256), ("lstm", 8191), ("convolution", 8191)],
)
def test_path_lengths_at_8192_positions(name, expected):
    assert BY_NAME[name].maximum_path_length(Sizes(window=65), 8192) == expected
    assert BY_NAME[name].maximum_path_length(Sizes(window=65), 1) == 1
    assert BY_NAME["lstm"].reach(SMALL, 100) == 1  # a step of an LSTM is one position


@pytest.mark.tensorflow
@pytest.mark.parametrize("name", ["full", "windowed", "convolution"])
def test_so_many_layers_connect_the_ends_and_no_fewer(name):
    import tensorflow as tf

    length = 12
    number = BY_NAME[name].maximum_path_length(SMALL, length)
    assert number == {"full": 1, "windowed": 6, "convolution": 11}[name]
    for num_layers, is_connected in ((number - 1, False), (number, True)):
        layers = [create_layer(name, SMALL) for _ in range(num_layers)]
        x = tf.random.normal((1, length, SMALL.hidden_dim))
        with tf.GradientTape() as tape:
            tape.watch(x)
            hidden = x
            for layer in layers:
                hidden = layer(hidden)
            last = tf.reduce_sum(hidden[:, -1] ** 2)
        of_first = tape.gradient(last, x).numpy()[:, 0]
        assert np.any(of_first != 0) == is_connected


@pytest.mark.tensorflow
def test_a_pass_computes_outputs_and_all_gradients():
    results = {name: compiled_pass(name, SMALL, 20, xla=False)() for name in NAMES}
    for name, (total, (of_inputs, *of_weights)) in results.items():
        assert of_inputs.shape == (1, 20, 8)
        assert len(of_weights) == {"lstm": 3, "convolution": 3}.get(name, 2)
        assert all(np.abs(gradient).max() > 0 for gradient in (total, of_inputs, *of_weights))
    # The same weights and inputs, by another operation.
    for one, other in zip(
        *map(keras.tree.flatten, (results["full"], results["fused"])), strict=True
    ):
        np.testing.assert_allclose(one, other, atol=1e-4)
    assert np.abs(results["full"][0] - results["windowed"][0]) > 1e-3


def measured():
    """Three layers at two lengths: full grows with the square, windowed with the length."""
    found = Measurements.of(["full", "windowed", "lstm"], Sizes())
    found.seconds = {
        1024: {"full": [0.08, 0.05], "windowed": [0.02, 0.03], "lstm": [1.5, 1.6]},
        8192: {"full": [3.2, 4.0], "windowed": [0.16, 0.2], "lstm": [12.0, 13.0]},
    }
    found.peak_bytes = {
        1024: {"full": 70_000_000, "windowed": 30_000_000, "lstm": 0},
        8192: {"full": 4_480_000_000, "windowed": 240_000_000, "lstm": 300_000_000},
    }
    return found


def test_the_tables_are_read_off_the_measurements():
    found = measured()
    assert [
        heading(found, "ms"),
        time_row(8192, found.seconds[8192]),
        heading(found, "MB"),
        memory_row(8192, found.peak_bytes[8192]),
    ] == [
        "n, ms             full    windowed        lstm",
        "8,192          3,200.0       160.0    12,000.0",
        "n, MB             full    windowed        lstm",
        "8,192          4,480.0       240.0       300.0",
    ]
    assert list(summary(found)) == [
        "layer                  complexity        sequential  path      path at     time   memory",
        "                       per layer         operations  length      8,192       n^       n^",
        "full attention         O(n^2 d)          O(1)        O(1)            1     2.00     2.00",
        "windowed attention     O(r n d)          O(1)        O(n/r)        256     1.00     1.00",
        "LSTM                   O(n d^2)          O(n)        O(n)        8,191     1.00",
        "The first columns are from Vaswani et al. (2017), Table 1. Exponents are fitted over "
        "n = 1,024 to 8,192.",
        "At 8,192 positions, windowed attention is 20.0 times as fast as full attention, with "
        "1/18.7 of its memory.",
    ]
    others = Measurements.of(["lstm", "convolution"], Sizes())
    others.seconds = {64: {"lstm": [1.0], "convolution": [1.0]}}
    assert not any("as fast" in line for line in summary(others))


def test_the_record_has_every_figure():
    found = record(measured(), command="python -m benchmarks.table1", rounds=2)
    assert found["sizes"]["window"] == 65
    full, windowed, _ = found["layers"]
    exponents = [full[f"{what}_exponent"] for what in ("time", "memory")]
    assert exponents == pytest.approx([2.0, 2.0])
    expected = {"path_length": 256, "seconds": [0.16, 0.2], "peak_bytes": 240_000_000}
    assert windowed["lengths"][1] == {"length": 8192, **expected}
    assert json.loads(json.dumps(found)) == found


def test_the_figure_has_a_line_for_each_layer():
    pytest.importorskip("matplotlib")
    picture = draw(measured(), "svg").decode()
    for label in (
        "full attention: $n^{2.00}$",
        "time (ms)",
        "peak memory (MB)",
        "length (pos",
    ):
        assert f"<!-- {label}" in picture
    assert draw(measured(), "png").startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--window 4", "--window must be odd and at least 3. Received: 4"),
        ("--kernel-size 1", "--kernel-size must be odd and at least 3. Received: 1"),
        ("--hidden-dim 10 --num-heads 4", "multiple of --num-heads. Received: 10 and 4"),
        (
            "--plot table.txt",
            "`--plot` must end in one of .png, .pdf, .svg. Received: --plot ",
        ),
        ("--json nowhere/t.json", "`--json` must be in an existing folder. Received: 'nowhere/t"),
        ("--plot nowhere/t.png", "`--plot` must be in an existing folder. Received: 'nowhere/t"),
        ("--layers full,gru", "must be among full, fused, windowed, lstm, convolution: 'gru'"),
        (
            "--lengths 64,0",
            "argument --lengths: must be positive integers separated by commas: '64,0'",
        ),
    ],
)
def test_a_wrong_flag_is_one_line(flags, message, capsys):
    with pytest.raises(SystemExit) as ended:
        sys.exit(run_command(lambda: main(flags.split())))
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.slow
@pytest.mark.tensorflow
def test_full_attention_holds_the_weights_of_all_pairs_and_a_window_does_not():
    length = 2048
    found = Measuring(["full", "windowed"], SMALL, rounds=1, xla=False).peak_bytes(length)
    assert found["windowed"] < 4 * SMALL.num_heads * length**2 < found["full"]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_jax_is_measured_too(monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    measuring = Measuring(["windowed", "lstm"], SMALL, rounds=2, xla=False)
    found = measuring.seconds(80)
    assert {name: len(seconds) for name, seconds in found.items()} == {"windowed": 2, "lstm": 2}
    assert set(measuring.peak_bytes(80)) == {"windowed", "lstm"}


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_small_run_from_end_to_end(capsys, tmp_path):
    flags = "--lengths 80,16 --layers windowed,full --hidden-dim 8 --num-heads 2 --window 3"
    outputs = f"--rounds 2 --json {tmp_path}/table1.json --plot {tmp_path}/table1.png"
    assert main([*flags.split(), *outputs.split()]) is None
    out = capsys.readouterr().out
    assert re.search(r"^n, ms +full +windowed\n16 +[\d.]+ +[\d.]+\n80 +[\d.]+ +[\d.]+$", out, re.M)
    assert re.search(r"^n, MB +full +windowed\n16 +[\d.]+ +[\d.]+\n80 +[\d.]+ +[\d.]+$", out, re.M)
    assert "windowed attention     O(r n d)          O(1)        O(n/r)         79" in out
    found = json.loads((tmp_path / "table1.json").read_text())
    assert found["command"].startswith("python -m benchmarks.table1 --lengths 80,16")
    for layer in found["layers"]:
        assert [len(entry["seconds"]) for entry in layer["lengths"]] == [2, 2]
        assert layer["time_exponent"] is None
    assert (tmp_path / "table1.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserInputError, match="process that measures -1 positions ended with 1: "):
        Measuring(["full"], SMALL, rounds=1, xla=False).seconds(-1)

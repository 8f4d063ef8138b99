"""The benchmark of training steps: its sentences, its arithmetic, its table."""

import csv
import os
import re
import subprocess
import sys

import numpy as np
import pytest

from benchmarks.invented_language import FIRST_WORD, invented_corpus
from benchmarks.timed_training import step_times
from benchmarks.training_step import comparison, main
from keras_transformer.training import StepWork

SMALL = "--preset tiny --num-layers 1 --batch-tokens 256 --max-tokens 20 --vocabulary-size 203"
ROW = r"^(\w+) +([\d.]+)  \(([\d.]+)-([\d.]+)\) +([\d,]+) +([\d.]+)% +([\d.]+) GiB +\d+ s$"


def test_a_target_is_its_source_in_another_spelling():
    corpus = invented_corpus(500, vocabulary_size=100, longest=50)
    spelling = {}
    for pair in range(len(corpus)):
        source, target = corpus.source(pair).tolist(), corpus.target(pair).tolist()
        for word, other in zip(source, target, strict=False):
            assert spelling.setdefault(word, other) == other
    assert len(set(spelling.values())) == len(spelling) > 80
    assert min(spelling) >= FIRST_WORD == 4
    assert max(map(max, (corpus.source_lengths, corpus.target_lengths))) == 50


def test_words_follow_zipfs_law():
    ids = np.asarray(invented_corpus(5000, 1004, longest=200).source_ids) - FIRST_WORD
    shares = np.bincount(ids, minlength=1000) / len(ids)
    harmonic = sum(1 / np.arange(1, 1001))
    np.testing.assert_allclose(shares[:3], [1 / harmonic, 1 / 2 / harmonic, 1 / 3 / harmonic], 0.05)


def test_times_leave_out_the_steps_that_compile():
    work = StepWork(target_tokens=lambda step: 100 + step, flops=lambda step: 50, peak_flops=100)
    ends = [0.0, 30.0, 31.0, 51.0, 52.0, 54.0]  # steps of 30, 1, 20, 1 and 2 seconds
    times = step_times(ends, [5.0] * 5, work, compiling=[0, 2])
    assert (times.seconds, times.middle_half) == (1.0, (1.0, 1.5))
    assert times.target_tokens_per_second == (101 + 103 + 104) / 4
    assert times.utilization == 3 * 50 / (4 * 100)
    assert times.start_seconds == 50
    assert times.peak_bytes > 2**20
    alone = step_times(ends[:2], [5.0], StepWork(target_tokens=lambda step: 60), compiling=[0])
    assert (alone.target_tokens_per_second, alone.utilization) == (2.0, None)


def test_losses_of_two_precisions_are_compared():
    lines = comparison({"mixed_bfloat16": [4.0, 3.5, 3.0], "float32": [4.0, 3.0, 3.25]})
    assert [line.split() for line in lines[1:4]] == [
        ["1", "4.0000", "4.0000", "+0.0000"],
        ["2", "3.5000", "3.0000", "+0.5000"],
        ["3", "3.0000", "3.2500", "-0.2500"],
    ]
    assert lines[4] == (
        "In 3 steps, the losses differ by 0.25000 on average, and by at most 0.50000 (step 2)."
    )


def check_table(out, path, steps):
    """Check what two precisions print, and the losses they write."""
    rows = re.findall(ROW, out, re.MULTILINE)
    assert [row[0] for row in rows] == ["mixed_bfloat16", "float32"]
    for row in rows:
        low, median, high = float(row[2]), float(row[1]), float(row[3])
        assert 0 < low <= median <= high
        assert float(row[5]) > 0
    with open(path, encoding="utf-8") as file:
        losses = list(csv.DictReader(file))
    assert [int(row["step"]) for row in losses] == list(range(1, steps + 1))
    # The same weights and batches. On TensorFlow dropout draws other masks in another precision.
    for row in losses:
        assert float(row["mixed_bfloat16"]) == pytest.approx(float(row["float32"]), rel=0.05)
    assert any(row["mixed_bfloat16"] != row["float32"] for row in losses)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_prints_a_table_on_tensorflow(capsys, tmp_path):
    path = tmp_path / "losses.csv"
    arguments = f"{SMALL} --steps 5 --device-tflops 0.001 --compare float32 --losses {path}"
    assert main(arguments.split()) is None
    out = capsys.readouterr().out
    assert "1 x CPU" in out
    assert re.search(r"tiny: [\d,]+ parameters, 208 tokens", out)
    check_table(out, path, steps=5)


@pytest.mark.slow
def test_prints_a_table_on_jax_with_replicas_and_slices(tmp_path):
    path = tmp_path / "losses.csv"
    arguments = f"{SMALL} --steps 6 --device-tflops 0.001 --compare float32 --losses {path}"
    more = "--backend jax --replicas 2 --accumulate 2 --shapes 2"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.training_step", *arguments.split(), *more.split()],
        env={name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert "2 x CPU" in done.stdout
    assert re.search(r"in 2 slices, [\d.]+% padding, [12] shapes", done.stdout)
    check_table(done.stdout, path, steps=6)

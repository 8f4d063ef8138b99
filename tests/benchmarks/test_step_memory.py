"""What XLA plans for a training step: no whole logits."""

import os
import re
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_a_step_has_no_room_for_its_logits():
    """Those of 4,096 tokens over 50,000 are 0.76 GiB, and with them a step takes three times it."""
    arguments = "--preset tiny --rows 128 --length 32 --vocabulary-size 50000"
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.step_memory", *arguments.split()],
        env={**os.environ, "JAX_PLATFORMS": "cpu"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "tiny, float32, 128 x 32 tokens a side" in done.stdout
    sizes = dict(re.findall(r"(\w+) +([\d.]+) GiB", done.stdout))
    assert list(sizes) == ["temporary", "arguments", "outputs", "sum"]
    assert 0.1 < float(sizes["temporary"]) < 1.1

"""The random numbers of tests: seeded before anything draws, and a failure says how to repeat."""

import os
import re
import subprocess
import sys

import pytest

FAILING = """
import random
import numpy as np
import pytest

@pytest.fixture(scope="module")
def drawn():
    return random.random(), np.random.rand()

def test_that_fails(drawn, random_seed):
    assert not (random_seed, drawn, random.random(), np.random.rand())
"""


@pytest.mark.tensorflow  # once, not again in the run of JAX
def test_a_failure_prints_the_seed_that_repeats_it(tmp_path):
    (tmp_path / "test_drawing.py").write_text(FAILING)

    def failure(*options):
        command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "--rootdir", tmp_path, tmp_path / "test_drawing.py", *options],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=600,
        )
        (values,) = re.findall(r"^E +assert not (.*)$", done.stdout, re.MULTILINE)
        (seed,) = re.findall(r"^repeated by --seed (\d+)$", done.stdout, re.MULTILINE)
        return seed, values

    first, again, other = failure("--seed", "7"), failure("--seed", "7"), failure()
    assert first == again
    assert (first[0], other[0]) == ("7", "1")
    assert first[1] != other[1]

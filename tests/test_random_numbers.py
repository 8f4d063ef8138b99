"""The random numbers of tests: seeded before anything draws, and a failure says how to repeat."""

import os
import random
import re
import subprocess
import sys

import numpy as np
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


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
def test_a_failure_prints_the_seed_that_repeats_it(tmp_path):
    (tmp_path / "test_drawing.py").write_text(FAILING)
    (tmp_path / "test_drawing_again.py").write_text(FAILING)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "--rootdir", tmp_path, tmp_path, "--seed", "7"],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "KERAS_BACKEND": "numpy",  # the quickest to start
        },
        capture_output=True,
        text=True,
        timeout=600,
    )
    first, again = re.findall(r"^E +assert not \((.*)\)$", done.stdout, re.MULTILINE)
    assert first == again
    expected = f"{random.Random(7).random()}, {np.random.RandomState(7).rand()}"
    assert first == f"7, ({expected}), {expected}"
    assert re.findall(r"^repeated by --seed (\d+)$", done.stdout, re.MULTILINE) == ["7", "7"]

"""The fuzzer's cases end well: the right result, or one line and exit code 2."""

import pytest

from tests.fuzz.__main__ import fuzz
from tests.fuzz.material import Material

pytestmark = pytest.mark.tensorflow
SECONDS = 600  # no case may hang; how long others keep the machine is no fault


def found_by(trained_run, directory, cases, seed):
    Material(directory / "material", trained_run)
    found = fuzz(directory / "material", directory / "log", cases=cases, seed=seed, seconds=SECONDS)
    print(found.text())
    return found


def test_50_cases(trained_run, tmp_path, random_seed):
    found = found_by(trained_run, tmp_path, 50, random_seed)
    assert not found.faults, found.text()
    assert found.counts["cases"] == 50


@pytest.mark.slow
def test_many_cases(trained_run, tmp_path, random_seed, pytestconfig):
    cases = pytestconfig.getoption("--cases")
    found = found_by(trained_run, tmp_path, cases, random_seed)
    assert not found.faults, found.text()
    assert found.counts["cases"] == cases

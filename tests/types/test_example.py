"""The program that the type checker reads also runs."""

import numpy as np
import pytest

from tests.types import example

pytestmark = pytest.mark.tensorflow


def test_layers_on_their_own_and_in_a_model():
    assert example.attention(np.ones((2, 3, 8), "float32")) == (2, 3, 8, 2, 4, 3, 3)
    assert example.classifier(10)(np.array([[5, 4, 0]])).shape == (1, 1)


@pytest.mark.slow
def test_trainings(tmp_path):
    assert len(example.fit_and_translate(str(tmp_path / "prepared"))) == len(example.SOURCES)
    lines = example.SOURCES + example.TARGETS
    assert example.train(lines, tmp_path / "run", str(tmp_path / "corpus")) > 0

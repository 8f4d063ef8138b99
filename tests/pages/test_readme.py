"""What the README shows must work as it stands."""

import re

import pytest

from tests.pages.page import Page, run_code

README = Page("README.md")


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("epochs", "output"),
    [
        pytest.param("50", "drei eins vier eins", marks=pytest.mark.slow),
        ("1", ".*"),
    ],
    ids=["as it stands", "one epoch"],
)
def test_the_python_example_runs_and_translates(epochs, output, capsys):
    (code,) = README.blocks("python")
    assert code.count("epochs=50)") == 1
    run_code([code.replace("=50)", f"={epochs})")], "README.md")
    assert re.fullmatch(output, capsys.readouterr().out.splitlines()[-1])


def test_it_is_short():
    assert len(README.text.split()) <= 1300

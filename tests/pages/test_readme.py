"""What the README shows must work as it stands."""

import re

import pytest

from tests.pages.page import Page, run_code

README = Page("README.md")


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("steps", "output"),
    [
        pytest.param("400", r"\['drei eins vier eins'\]", marks=pytest.mark.slow),
        ("3", r"\['.*'\]"),
    ],
    ids=["as it stands", "a few steps"],
)
def test_the_python_example_runs_and_translates(steps, output, tmp_path, monkeypatch, capsys):
    (code,) = README.blocks("python")
    assert code.count("steps_per_epoch=400,") == 1
    monkeypatch.chdir(tmp_path)
    run_code([code.replace("=400,", f"={steps},")], "README.md")
    assert re.fullmatch(output, capsys.readouterr().out.splitlines()[-1])


def test_it_is_short():
    assert len(README.text.split()) <= 1300

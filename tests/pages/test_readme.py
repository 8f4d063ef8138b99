"""What the README shows must work as it stands."""

import pytest

from tests.pages.page import Page

README = Page("README.md")


@pytest.mark.tensorflow
def test_the_python_example_runs_and_translates(tmp_path, monkeypatch, capsys):
    assert len(README.blocks("python")) == 1
    monkeypatch.chdir(tmp_path)
    README.run_code()
    assert capsys.readouterr().out.splitlines()[-1] == "['drei eins vier eins']"


def test_it_is_short():
    assert len(README.text.split()) <= 1300

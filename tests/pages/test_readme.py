"""What the README shows must work as it stands."""

import pathlib
import re

import pytest

from keras_transformer.models import PRESETS
from tests.models.test_transformer import count_parameters
from tests.pages.page import ROOT, Page

README = Page("README.md")


@pytest.mark.tensorflow
def test_the_python_example_runs_and_translates(tmp_path, monkeypatch, capsys):
    assert len(README.blocks("python")) == 1
    monkeypatch.chdir(tmp_path)
    README.run_code()
    assert capsys.readouterr().out.splitlines()[-1] == "['drei eins vier eins']"


def test_the_map_names_what_exists():
    rows = re.findall(
        r"^\| (`.*?) \|", README.text.split("## Map of the code")[1], flags=re.MULTILINE
    )
    paths = []
    for row in rows:
        names = re.findall(r"`([^`]+)`", row)
        folder = pathlib.Path(names[0]).parent
        paths += [ROOT / names[0], *(ROOT / folder / name for name in names[1:])]
    assert [str(path) for path in paths if not path.exists()] == []


def test_the_table_of_parameters_is_the_models():
    table = README.text.split("## Sizes")[1].split("##")[0]
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    names, ours = rows[0][1:], next(row for row in rows if row[0] == "here")[1:]
    assert len(names) == 11
    for name, millions in zip(names, ours, strict=True):
        counted = count_parameters(PRESETS[name], 37_000) / 1e6
        assert float(millions) == pytest.approx(counted, abs=0.051)

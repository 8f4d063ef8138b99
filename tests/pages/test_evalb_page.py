"""What docs/evalb.md shows is what the program does with EVALB's own sample."""

import json
import pathlib
import re
import shutil
import subprocess

import pytest

from keras_transformer.toolkit.cli import main
from tests.pages.page import ROOT, Page

PAGE = Page("docs/evalb.md")


@pytest.fixture
def sample(tmp_path, monkeypatch):
    for name in ("sample.gld", "sample.tst", "COLLINS.prm"):
        shutil.copy(ROOT / "tests" / "parsing" / "evalb_sample" / name, tmp_path)
    monkeypatch.chdir(tmp_path)


def figures(capsys):
    """What `--json` prints of all sentences."""
    scores = json.loads(capsys.readouterr().out)["all"]
    names = ("recall", "precision", "f1", "valid", "error", "skipped")
    return [scores[name] for name in names]


def test_its_commands_print_its_figures(sample, capsys):
    plain, as_json, with_parameters = PAGE.commands()
    assert main(plain) == 0
    (shown,) = PAGE.blocks("text")
    assert shown in capsys.readouterr().out
    assert main(as_json) == 0
    by_collins = figures(capsys)
    (prepare,) = re.findall(r"^\(cat .*$", PAGE.text, re.MULTILINE)
    subprocess.run(["bash", "-c", prepare], check=True)
    assert pathlib.Path("sample.prm").stat().st_size > pathlib.Path("COLLINS.prm").stat().st_size
    assert main([*with_parameters, "--json"]) == 0
    by_its_own = figures(capsys)
    assert by_its_own == [87.76, 90.53, 89.12, 17, 5, 2]
    assert by_collins == [87.23, 90.11, 88.65, 16, 6, 2]
    for name, scores in (("sample.prm", by_its_own), ("COLLINS.prm", by_collins)):
        (row,) = re.findall(rf"^\| `{name}` \| (.*) \|$", PAGE.text, re.MULTILINE)
        assert [float(cell) for cell in row.split("|")] == scores


def test_the_examples_print_what_the_page_says():
    assert PAGE.run_examples() == 5

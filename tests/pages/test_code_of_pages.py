"""The code of some pages runs from top to bottom as it stands."""

import pathlib
import re

import pytest

from tests.pages.page import ROOT, Page

LINES = """\
A small house stands behind the tree, and the tree stands before a large house.
Ein kleines Haus steht hinter dem Baum, und der Baum steht vor einem großen Haus.
Nobody saw the old fisherman when he left the harbour early in the morning.
Niemand sah den alten Fischer, als er den Hafen früh am Morgen verließ.
Questions about the weather are answered quickly; questions about bread are not.
Fragen nach dem Wetter werden schnell beantwortet, Fragen nach dem Brot nicht.
"""


def test_text(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text(LINES, encoding="utf-8")
    page = Page("docs/text.md")
    assert len(page.blocks("python")) == 3
    page.run_code()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert len(set(printed)) > 1


def test_translating(untrained_run, capsys):
    Page("docs/translating.md").run_code()
    output = capsys.readouterr().out.splitlines()
    assert output[0].endswith(", '']")
    assert output[1].startswith("['Das")
    assert len(output) == 2 + 3 + 1 + 2


@pytest.mark.tensorflow
def test_attention(untrained_run, capsys):
    names = Page("docs/attention.md").run_code()
    assert capsys.readouterr().out == f"{names['maps'].cross.shape}\n"
    assert pathlib.Path("figure.pdf").read_bytes().startswith(b"%PDF")
    assert "KerasTransformerAttention" in pathlib.Path("attention.html").read_text("utf-8")


def test_the_files_of_the_viewer_are_in_their_folder():
    text = Page("docs/attention.md").text
    (*files, folder) = re.search(r"Copy `(.*?)` and `(.*?)` from the `(.*?)` folder", text).groups()
    assert [name for name in files if not (ROOT / folder / name).is_file()] == []

"""The code of docs/text.md runs as it stands."""

from tests.pages.page import Page

PAGE = Page("docs/text.md")
LINES = """\
A small house stands behind the tree, and the tree stands before a large house.
Ein kleines Haus steht hinter dem Baum, und der Baum steht vor einem großen Haus.
Nobody saw the old fisherman when he left the harbour early in the morning.
Niemand sah den alten Fischer, als er den Hafen früh am Morgen verließ.
Questions about the weather are answered quickly; questions about bread are not.
Fragen nach dem Wetter werden schnell beantwortet, Fragen nach dem Brot nicht.
"""


def test_code_runs_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "corpus.txt").write_text(LINES, encoding="utf-8")
    assert len(PAGE.blocks("python")) == 3
    PAGE.run_code()
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 3
    assert len(set(printed)) > 1

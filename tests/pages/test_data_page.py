"""What docs/data.md shows must work as it stands."""

import pathlib
import re

import pytest

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "data.md"
LONG = "house " * 300
FILES = {
    "news.1.en": ["a house", "a tree", "", "a house", LONG],
    "news.1.de": ["ein Haus", "ein Baum", "leer", "ein Haus ", LONG.replace("house", "Haus")],
    "news.2.en": ["Berlin", "the cat sleeps", "two trees", "a small house of stone"],
    "news.2.de": ["Berlin", "die Katze schläft", "zwei Bäume", "ein kleines Haus aus Stein"],
    "test.en": ["a tree", "the cat sleeps", "a dog"],
    "test.de": ["der Baum", "die Katze schläft", "ein Hund"],
    "backtranslated.en": ["<BT> a house of stone", ""],
    "monolingual.de": ["ein Haus aus Stein", "Kauderwelsch"],
}


@pytest.mark.tensorflow
def test_the_examples_run_and_print_what_the_page_says(tmp_path, monkeypatch, capsys):
    for name, lines in FILES.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    page = PAGE.read_text(encoding="utf-8").replace("vocabulary_size=16_000", "vocabulary_size=60")
    names = {}
    for block in re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL):
        exec(compile(block, str(PAGE), "exec"), names)
    printed = capsys.readouterr()
    dropped, overlap = re.findall(r"```\n([^`]*?)\n```\n", page)[-2:]
    counts = re.compile(r"\d+ source and \d+ target tokens")
    assert counts.sub("", dropped) in counts.sub("", printed.err)
    assert overlap in printed.out
    inputs, _, _ = next(iter(names["batches"]))
    assert inputs["source_ids"].shape[1] > 0
    assert sum(map(len, names["reader"].plan.epoch(0))) == 11

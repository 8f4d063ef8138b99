"""What docs/data.md shows must work as it stands."""

import re

import pytest

from tests.pages.page import Page, run_code

PAGE = Page("docs/data.md")
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
    small = [
        block.replace("vocabulary_size=16_000", "vocabulary_size=60")
        for block in PAGE.blocks("python")
    ]
    names = run_code(small, PAGE.path.name)
    printed = capsys.readouterr()
    dropped, overlap = (block.rstrip("\n") for block in PAGE.blocks()[-2:])
    counts = re.compile(r"\d+ source and \d+ target tokens")
    assert counts.sub("", dropped) in counts.sub("", printed.err)
    assert overlap in printed.out
    inputs, _, _ = next(iter(names["batches"]))
    assert inputs["source_ids"].shape[1] > 0
    assert sum(map(len, names["reader"].plan.epoch(0))) == 11

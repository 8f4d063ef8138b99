"""What docs/parsing.md shows is what the program does."""

import pathlib

import pytest

from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.text import SentencePieceTokenizer
from tests.pages.page import Page
from tests.random_translation import build_parser, sentences, write_run

PAGE = Page("docs/parsing.md")
TOKENS = ["(NP", "(S", "(VP", ")NP", ")S", ")VP", "XX"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The files that the page's examples find: a treebank's tree, and a run with random weights."""
    monkeypatch.chdir(tmp_path)
    (raw,) = [block for block in PAGE.blocks() if block.startswith("( ")]
    pathlib.Path("raw.mrg").write_text(raw, "utf-8")
    target = TreeTokenizer.of(TOKENS)
    source = SentencePieceTokenizer.train(sentences(50), vocabulary_size=300, byte_fallback=True)
    return write_run("runs/parser", build_parser(target, source), target, source)


def test_the_examples_print_what_the_page_says(run):
    assert PAGE.run_examples() == PAGE.text.count("\n>>> ")

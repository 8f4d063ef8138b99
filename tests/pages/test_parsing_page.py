"""What docs/parsing.md shows is what the program does."""

import doctest
import pathlib

import pytest

from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.pages.page import Page
from tests.random_translation import build_parser, sentences

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
    model = build_parser(target, source)
    run = RunDirectory.create("runs/parser")
    run.start(model=model, tokenizer=target, source_tokenizer=source, settings={})
    model.save_weights(run.weights_path)
    return run


def test_the_examples_print_what_the_page_says(run):
    text = "\n".join(PAGE.blocks("python"))  # a block's last output ends at the empty line
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.path.name, str(PAGE.path), 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    result = runner.run(examples, out=report.append)
    assert result.failed == 0, "".join(report)
    assert result.attempted == PAGE.text.count("\n>>> ")

"""What docs/parsing.md shows is what the program does."""

import doctest
import pathlib
import re
import shlex

import pytest

from keras_transformer.cli import _parser
from keras_transformer.parsing.tree_tokenizer import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "parsing.md"
TEXT = PAGE.read_text("utf-8")
TOKENS = ["(NP", "(S", "(VP", ")NP", ")S", ")VP", "XX"]


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


def commands():
    """The arguments of every `keras-transformer` on the page."""
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)
        if words[0] == "keras-transformer":
            end = words.index("<") if "<" in words else None
            yield words[1:end]


@pytest.mark.parametrize("arguments", list(commands()), ids=" ".join)
def test_every_command_is_understood(arguments):
    assert _parser().parse_args(arguments).verb.__name__ == arguments[0]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """The files that the page's examples find: a treebank's tree, and a run with random weights."""
    monkeypatch.chdir(tmp_path)
    (raw,) = re.findall(r"^```\n(\( .*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    pathlib.Path("raw.mrg").write_text(raw, "utf-8")
    target = TreeTokenizer.of(TOKENS)
    source = SentencePieceTokenizer.train(sentences(50), vocabulary_size=300, byte_fallback=True)
    model = build(
        target,
        num_encoder_layers=1,
        num_decoder_layers=1,
        source_vocabulary_size=source.vocabulary_size,
        positions="words",
        source_word_starts=source.word_starts,
        target_word_starts=target.word_starts,
    )
    run = RunDirectory.create("runs/parser")
    run.start(model=model, tokenizer=target, source_tokenizer=source, settings={})
    model.save_weights(run.weights_path)
    return run


def test_the_examples_print_what_the_page_says(run):
    text = "\n".join(blocks("python"))  # a block's last output ends at the empty line
    examples = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    report = []
    runner = doctest.DocTestRunner(optionflags=doctest.REPORT_ONLY_FIRST_FAILURE)
    result = runner.run(examples, out=report.append)
    assert result.failed == 0, "".join(report)
    assert result.attempted == TEXT.count("\n>>> ")


def test_linked_files_exist():
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", TEXT)
    assert links
    assert [link for link in links if not (PAGE.parent / link).exists()] == []

"""What docs/translating.md shows is what the program does."""

import pathlib
import re
import shlex

import pytest

from keras_transformer.cli import _parser
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "translating.md"
LINES = ["A small house.", "A tree.", "Das kleine Haus.", "Ein kleines Haus.", "Ein Baum."]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def commands():
    """The arguments of every `keras-transformer` on the page."""
    for line in "".join(blocks("sh")).splitlines():
        words = shlex.split(line, comments=True)
        words = words[words.index("keras-transformer") + 1 :]
        ends = [words.index(sign) for sign in "<>|" if sign in words]
        yield words[: min(ends, default=None)]


@pytest.mark.parametrize("arguments", list(commands()), ids=" ".join)
def test_every_command_is_understood(arguments):
    assert _parser().parse_args(arguments).verb.__name__ == arguments[0]


def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=40)
    model = build(tokenizer, num_encoder_layers=1, num_decoder_layers=1)
    run = RunDirectory.create("runs/en_de")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    model.save_weights(run.checkpoints.best_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)
    output = capsys.readouterr().out.splitlines()
    assert output[0].endswith(", '']")
    assert output[1].startswith("['Das")
    assert len(output) == 2 + 3 + 1 + 2

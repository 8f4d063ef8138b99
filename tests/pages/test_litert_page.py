"""What docs/litert.md shows is what the program does."""

import pathlib
import re
import shlex

import pytest

from keras_transformer.cli import _parser
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build

pytestmark = pytest.mark.tensorflow

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "litert.md"
LINES = ["A small house.", "A tree.", "Das kleine Haus.", "Ein kleines Haus.", "Ein Baum."]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.mark.parametrize("line", "".join(blocks("sh")).splitlines())
def test_every_command_is_understood(line):
    options = _parser().parse_args(shlex.split(line)[1:])
    assert options.exporter == "export_litert"


def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=40)
    model = build(tokenizer, num_encoder_layers=1, num_decoder_layers=1)
    run = RunDirectory.create("runs/en_de")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    names = {}
    for block in blocks("python"):
        exec(block, names)
    output = capsys.readouterr().out.splitlines()
    small_house, tree = Translator(model, tokenizer).translate(LINES[:2])
    assert output[:2] == ["saved_models/en_de_litert", repr([small_house, ""])]
    assert output[2].split(" ", 1)[1] == tree
    assert output[3] == small_house
    assert output[4] == Translator(model, tokenizer, beam_size=1).translate(LINES[:1])[0]
    assert len(output) == 5

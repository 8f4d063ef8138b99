"""What docs/litert.md shows is what the program does."""

import pytest

from keras_transformer.inference.translator import Translator
from tests.pages.conftest import LINES
from tests.pages.page import Page

pytestmark = pytest.mark.tensorflow

PAGE = Page("docs/litert.md")


def test_its_commands_export_it():
    assert {tuple(words[:2]) for words in PAGE.commands()} == {("export", "litert")}


def test_the_code_runs_from_top_to_bottom(untrained_run, capsys):
    PAGE.run_code()
    output = capsys.readouterr().out.splitlines()
    small_house, tree = Translator.load(untrained_run.path).translate(LINES[:2])
    assert output[:2] == ["saved_models/en_de_litert", repr([small_house, ""])]
    assert output[2].split(" ", 1)[1] == tree
    assert output[3] == small_house
    greedy = Translator.load(untrained_run.path, beam_size=1)
    assert output[4] == greedy.translate(LINES[:1])[0]
    assert len(output) == 5

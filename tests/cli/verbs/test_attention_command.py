"""`keras-transformer attention` with runs of random weights."""

import importlib.util
import json
import re

import pytest

from keras_transformer.inference.attention_figure import COLORS, STYLES
from keras_transformer.inference.attention_maps import KINDS
from keras_transformer.inference.parser import Parser
from keras_transformer.inference.translator import Translator
from keras_transformer.interpretation import attention_maps
from keras_transformer.parsing.linearization import TreeTokenizer
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.toolkit.cli.verbs import attention_command
from tests.cli.refusals import refusal
from tests.random_translation import build, sentences

SOURCE, TARGET = "small green house", "old \ue123 lamp"
SIZES = {"num_encoder_layers": 2, "num_decoder_layers": 3}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train([*sentences(50), TARGET], vocabulary_size=60)


@pytest.fixture(scope="module")
def runs(tokenizer, tmp_path_factory):
    """Two translators, and a parser: `one`, `two`, `parser`."""
    folder = tmp_path_factory.mktemp("runs")
    trees = TreeTokenizer.of(["(NP", "(S", ")NP", ")S", "XX"])
    for seed, name in enumerate(("one", "two", "parser")):
        target = trees if name == "parser" else tokenizer
        own = {"source_vocabulary_size": tokenizer.vocabulary_size} if target is trees else {}
        model = build(target, seed, **SIZES, **own)
        run = RunDirectory.create(folder / name)
        source = tokenizer if target is trees else None
        run.start(model=model, tokenizer=target, source_tokenizer=source, settings={})
        model.save_weights(run.weights_path)
        model.save_weights(run.checkpoints.best_path)
    return folder


@pytest.fixture
def attention(runs, tmp_path, call):
    """Call the verb with the names of runs; gives the exit code, stderr and the file's path."""

    def attend(names, output, *arguments, target="old lamp"):
        path = tmp_path / output
        arguments = ["--output", path, "--source", SOURCE, *arguments]
        arguments += [] if target is None else ["--target", target]
        code, out, err = call("attention", *(runs / name for name in names.split()), *arguments)
        assert out == ("" if code else f"{path}\n")
        return code, err, path

    return attend


def data_of(path):
    """The JSON in a page."""
    (data,) = re.findall(r'type="application/json">(.*?)</script>', path.read_text("utf-8"))
    return json.loads(data)


def test_a_page_has_the_maps_of_the_pair(attention, runs):
    code, err, path = attention("one", "page.html", target=TARGET)
    assert (code, err) == (0, "")
    expected = attention_maps(Translator.load(runs / "one"), SOURCE, TARGET).to_json()
    assert data_of(path) == expected
    assert f"<title>{SOURCE}</title>" in path.read_text("utf-8")


@pytest.mark.slow
def test_without_a_target_it_is_the_best_translation(attention, runs):
    code, _, path = attention("one", "page.html", "--checkpoint", "best", target=None)
    translator = Translator.load(runs / "one")
    maps = attention_maps(translator, SOURCE)
    assert (code, data_of(path)) == (0, maps.to_json())
    (ids,) = translator.translate_ids([SOURCE])[1]
    assert translator.tokenizer.pieces(ids) == maps.output_tokens[:-1]
    assert translator.tokenizer.decode([ids]) == translator.translate([SOURCE])


@pytest.mark.slow
def test_an_ensemble_translates_and_the_first_model_is_shown(attention, runs):
    _, _, path = attention("one two", "page.html", target=None)
    (best,) = Translator.load([runs / "one", runs / "two"]).translate([SOURCE])
    expected = attention_maps(Translator.load(runs / "one"), SOURCE, best)
    assert data_of(path) == expected.to_json()


def test_a_parsers_run_shows_its_trees(attention, runs):
    tree = "(S (NP (JJ small) (JJ green) (NN house)))"
    code, err, path = attention("parser", "page.html", target=tree)
    assert (code, err) == (0, "")
    expected = attention_maps(Parser.load(runs / "parser"), SOURCE, tree).to_json()
    assert data_of(path) == expected
    assert expected["output_tokens"] == [*"(S (NP XX XX XX )NP )S".split(), "</s>"]


def test_the_flags_have_the_kinds_and_styles_there_are():
    assert (attention_command.KINDS, attention_command.STYLES) == (KINDS, STYLES)


def test_flags_choose_what_a_figure_shows(attention):
    _, _, lines = attention("one", "a.svg", "--heads", "2", "--kind", "encoder", "--layer", "2")
    _, _, matrix = attention("one", "b.svg", "--style", "matrix")
    lines, matrix = (path.read_text("utf-8") for path in (lines, matrix))
    assert lines.startswith("<?xml ")
    assert [color in lines for color in COLORS[:2]] == [False, True]
    assert ("<image" in lines, "<image" in matrix) == (False, True)


def test_characters_without_a_glyph_are_one_warning(attention):
    code, err, path = attention("one", "figure.png", target=TARGET)
    assert (code, path.read_bytes()[:4]) == (0, b"\x89PNG")
    assert err == "warning: the installed fonts lack some characters of the text, shown as boxes.\n"


@pytest.mark.parametrize(
    ("names", "output", "arguments", "message"),
    [
        ("one", "page.txt", "", "`--output` must end in one of .html, .png, .pdf, .svg. Received"),
        ("one", "page", "", "`--output` must end in one of"),
        ("one", "page.html", "--layer 1", "`--layer` is only for figures"),
        ("one", "page.html", "--kind cross", "`--kind` is only for figures"),
        ("one", "figure.png", "--layer 4", "`--layer` must be at most 3, the model's number. Rec"),
        ("one", "page.html", "--checkpoint worst", "worst"),
        ("one", "page.html", "--target-language deu", "`target_language` must be a code"),
        ("one", "nowhere/a.html", "--checkpoint worst", "`--output` must be in an existing folder"),
        (
            "parser",
            "page.html",
            "--target-language deu",
            "`--target-language` is only for translations, not for the run of a parser. "
            "Received: --target-language deu\n",
        ),
    ],
)
def test_mistakes_are_one_line_and_no_file(attention, names, output, arguments, message):
    code, err, path = attention(names, output, *arguments.split())
    assert not path.exists()
    assert err.startswith("error: ")
    assert message in refusal((code, "", err))


def test_a_long_sentence_is_named_by_its_flag(attention):
    for flag, long in (("--target", {"target": "lamp " * 2000}), ("--source", {})):
        more = [] if long else ["--source", "lamp " * 2000]
        code, err, path = attention("one", "page.html", *more, **long)
        assert (code, path.exists()) == (2, False)
        assert err.startswith(f"error: `{flag}` has more than 1,024 tokens")


def test_a_file_that_is_there_stays_until_it_is_replaced(attention, tmp_path):
    path = tmp_path / "figure.pdf"
    path.write_text("older")
    code, err, _ = attention("one", "figure.pdf", "--heads", "1", "3")
    assert (code, path.read_text()) == (2, "older")
    assert "`--heads` must be at most 2, the model's number. Received: --heads 3" in err
    assert attention("one", "figure.pdf")[:2] == (0, "")
    assert path.read_bytes().startswith(b"%PDF-")
    assert list(tmp_path.iterdir()) == [path]


def test_without_matplotlib_it_says_what_to_install(attention, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, err, _ = attention("one", "figure.png")
    assert code == 2
    assert re.search(r"A figure needs matplotlib: pip install .*\[plots\]'\n", err)

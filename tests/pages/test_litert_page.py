"""What docs/litert.md shows is what the program does."""

import json

import pytest

from keras_transformer.formats.litert.reader import LiteRTDirectory
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.translator import Translator
from keras_transformer.interop import import_marian, import_marian_run
from keras_transformer.models import with_alignment_head
from keras_transformer.runs.run_directory import RunDirectory
from tests.interop.marian_folders import ENGLISH, GERMAN, write_hugging_face
from tests.pages.conftest import LINES
from tests.pages.page import Page, run_code

PAGE = Page("docs/litert.md")


def test_its_commands_export_it():
    assert {tuple(words[:2]) for words in PAGE.commands()} == {("export", "litert")}


@pytest.fixture
def marian_folder(tmp_path, monkeypatch):
    """A small model of Marian in a folder of its own, beside the working directory's files."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "opus"
    folder.mkdir()
    write_hugging_face(folder)
    return folder


def check_code(run, capsys):
    """Run the page's code on a run; what it prints is what the translator finds."""
    translator = Translator.load(run)
    guided = Translator(
        with_alignment_head(translator.models[0]),
        translator.tokenizer,
        source_tokenizer=translator.source_tokenizer,
        **RunDirectory.open(run).search_defaults(),
    )
    export_litert(guided, "exports/en_de_aligned", terms=True)
    PAGE.run_code()
    output = capsys.readouterr().out.splitlines()
    small_house, tree = Translator.load(run).translate(LINES[:2])
    assert output[:2] == ["exports/en_de_litert", repr([small_house, ""])]
    assert output[2].split(" ", 1)[1] == tree
    assert output[3] == translator.translate(LINES[0], glossary={"house": ["Haus", "Häuser"]})
    assert output[4] == translator.translate("Hello {name}!", keep="auto")
    (alignment,) = guided.align(["A small house."], ["Ein kleines Haus."])
    assert output[5] == alignment.pharaoh()
    assert output[6] == guided.translate("<p>A <b>small</b> house.</p>", markup="html")
    assert output[7] == small_house
    greedy = Translator.load(run, beam_size=1)
    assert output[8] == greedy.translate(LINES[:1])[0]
    assert len(output) == 9


@pytest.mark.tensorflow
def test_the_code_runs_from_top_to_bottom(untrained_run, capsys):
    check_code(untrained_run.path, capsys)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_it_runs_on_a_model_with_ids_of_its_own(marian_folder, capsys):
    import_marian_run(marian_folder, "runs/en_de")
    check_code("runs/en_de", capsys)


def test_its_ids_and_texts_are_the_tokenizers(marian_folder):
    imported = import_marian(marian_folder)
    source_tokenizer, tokenizer = imported.source_tokenizer, imported.tokenizer
    directory = marian_folder.parent / "exports" / "en_de_litert"
    directory.mkdir(parents=True)
    LiteRTDirectory(directory).write(b"model", source_tokenizer, tokenizer, {})
    (block,) = [block for block in PAGE.blocks("python") if "def encode" in block]
    page = run_code([block], str(PAGE.path))
    texts = [*ENGLISH, "", "  two  spaces ", "漢 and q", "</s>"]
    assert [page["encode"](text) for text in texts] == source_tokenizer.encode(texts)
    assert source_tokenizer.encode(ENGLISH) != tokenizer.encode(ENGLISH)
    rows = [*tokenizer.encode(GERMAN), [], list(range(1, tokenizer.vocabulary_size - 1))]
    assert [page["decode"](row) for row in rows] == tokenizer.decode(rows)
    record = json.loads((directory / "translation.json").read_text("utf-8"))
    for side, name in (("source", "source_vocabulary.json"), ("target", "vocabulary.json")):
        assert record[side]["vocabulary"] == name

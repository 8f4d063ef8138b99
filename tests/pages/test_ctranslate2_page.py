"""What docs/ctranslate2.md shows is what the export does."""

import pathlib
import re
import shlex

import pytest

from keras_transformer.cli import _parser
from keras_transformer.export import export_ctranslate2
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "ctranslate2.md"
LINES = ["A small house.", "A tree.", "Das kleine Haus.", "Ein kleines Haus.", "Ein Baum."]


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


def commands():
    """The arguments of every `keras-transformer` on the page."""
    lines = map(shlex.split, "".join(blocks("sh")).splitlines())
    return [words[1:] for words in lines if words[0] == "keras-transformer"]


@pytest.mark.parametrize("arguments", commands(), ids=" ".join)
def test_every_command_is_understood(arguments):
    options = _parser().parse_args(arguments)
    assert (options.exporter, options.precision) == ("export_ctranslate2", "int8")


def test_the_code_runs_from_top_to_bottom(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=40)
    model = build(tokenizer, num_encoder_layers=1, num_decoder_layers=1)
    run = RunDirectory.create("runs/en_de")
    run.start(model=model, tokenizer=tokenizer, settings={})
    model.save_weights(run.weights_path)
    (command,) = commands()
    *_, source, directory, _, precision = command
    export_ctranslate2(Translator.load(source), directory, precision=precision)
    names = {}
    for block in blocks("python"):
        exec(block, names)
    assert sorted(path.name for path in pathlib.Path("saved_models").iterdir()) == [
        "en_de_ctranslate2",
        "en_de_float32",
    ]
    assert names["engine"].compute_type.startswith("int8")
    output = capsys.readouterr().out.strip()
    assert output.startswith("['")
    assert output.endswith("', '']")
    assert names["limits"] == {"max_input_length": 1024, "max_decoding_length": 256}
    assert len(names["results"]) == 2


def test_the_files_it_lists_are_those_that_are_written(tmp_path):
    tokenizer = SentencePieceTokenizer.train(LINES, vocabulary_size=40)
    other = SentencePieceTokenizer.train(LINES[:2], vocabulary_size=20)
    shared = export_ctranslate2(Translator(build(tokenizer), tokenizer), tmp_path / "shared")
    separate = export_ctranslate2(
        Translator(build(tokenizer, source_vocabulary_size=20), tokenizer, source_tokenizer=other),
        tmp_path / "separate",
    )
    table = PAGE.read_text("utf-8").partition("| file | what |")[2].partition("\n\n")[0]
    files = {path.name for directory in (shared, separate) for path in directory.iterdir()}
    assert set(re.findall(r"`([\w.]+\.\w+|SHA256SUMS)`", table)) == files

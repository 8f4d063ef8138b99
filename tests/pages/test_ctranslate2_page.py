"""What docs/ctranslate2.md shows is what the export does."""

import pathlib
import re

from keras_transformer.export import export_ctranslate2
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from tests.pages.conftest import LINES
from tests.pages.page import Page
from tests.random_translation import build

PAGE = Page("docs/ctranslate2.md")


def test_the_code_runs_from_top_to_bottom(untrained_run, capsys):
    (command,) = PAGE.commands()
    *kind, source, directory, flag, precision = command
    assert [*kind, flag, precision] == ["export", "ctranslate2", "--precision", "int8"]
    export_ctranslate2(Translator.load(source), directory, precision=precision)
    names = PAGE.run_code()
    assert sorted(path.name for path in pathlib.Path("exports").iterdir()) == [
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
    table = PAGE.text.partition("| file | content |")[2].partition("\n\n")[0]
    files = {path.name for directory in (shared, separate) for path in directory.iterdir()}
    assert set(re.findall(r"`([\w.]+\.\w+|SHA256SUMS)`", table)) == files

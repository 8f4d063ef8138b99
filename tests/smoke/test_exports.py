"""An export of each kind gives the strings of the translator that it was made of."""

import dataclasses

import pytest

from keras_transformer.formats.format import Reading, at
from keras_transformer.formats.registry import FORMATS, check_export, is_export
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from tests.random_translation import build

pytestmark = pytest.mark.tensorflow
SENTENCES = ["one two three four", "five", "", "two five five one"]


def translator_for(kind, trained_run, post_norm_run):
    if kind != "bergamot":
        ending = {"ending": "first"} if kind == "ctranslate2" else {}  # that of its own search
        run = post_norm_run if kind == "marian" else trained_run
        return Translator.load(run, beam_size=2, **ending)
    tokenizer = Translator.load(trained_run).tokenizer
    model = build(tokenizer, zero_id=1, positions="sinusoidal_t2t")
    return Translator(model, tokenizer, beam_size=2)


def opened(kind, path, translator, run):
    """The translator of an export, by its reader or else as a run; with the search that it has."""
    if kind.name == "preset":
        return Translator.load(path), translator
    if kind.reader:
        return kind.open(path, Reading(translator.search_options)), translator
    found = at(kind.importer.place)(path, run)
    imported = Translator.load((found[0] if isinstance(found, list) else found).path)
    return imported, translator.with_search(**dataclasses.asdict(imported.search_options))


@pytest.mark.parametrize("kind", sorted(FORMATS.keys() - {"page"}))  # needs a browser: tests/export
def test_an_export_translates_as_the_translator(kind, trained_run, post_norm_run, tmp_path):
    translator = translator_for(kind, trained_run, post_norm_run)
    path = FORMATS[kind].write(translator, tmp_path / "export")
    assert is_export(path) == (kind != "preset")  # which is a run
    check = (
        RunDirectory(path).checksums.check_files if kind == "preset" else lambda: check_export(path)
    )
    assert check() > 0
    found, translator = opened(FORMATS[kind], path, translator, tmp_path / "run")
    assert found.translate(SENTENCES) == translator.translate(SENTENCES)

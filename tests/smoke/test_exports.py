"""An export of each kind gives the strings of the translator that it was made of."""

import dataclasses

import pytest

from keras_transformer import export, interop, serving
from keras_transformer.cli.verbs.export_command import KINDS
from keras_transformer.inference.translator import Translator
from tests.random_translation import build

pytestmark = pytest.mark.tensorflow
SENTENCES = ["one two three four", "five", "", "two five five one"]


def read_bergamot(path):
    imported = interop.import_bergamot(path)
    tokenizers = {"source_tokenizer": imported.source_tokenizer, "tokenizer": imported.tokenizer}
    return Translator(imported.model, **tokenizers, **imported.search)


READERS = {
    "saved-model": serving.SavedModelTranslator,
    "litert": serving.LiteRTTranslator,
    "ctranslate2": serving.CTranslate2Translator,
    "marian": Translator.from_preset,
    "bergamot": read_bergamot,
}


def translator_for(kind, trained_run, post_norm_run):
    if kind != "bergamot":
        return Translator.load(post_norm_run if kind == "marian" else trained_run, beam_size=2)
    tokenizer = Translator.load(trained_run).tokenizer
    model = build(tokenizer, zero_id=1, positions="sinusoidal_t2t")
    return Translator(model, tokenizer, beam_size=2)


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_translates_as_the_translator(kind, trained_run, post_norm_run, tmp_path):
    translator = translator_for(kind, trained_run, post_norm_run)
    path = getattr(export, KINDS[kind].exporter)(translator, tmp_path / "export")
    found = READERS[kind](path)
    if kind == "bergamot":  # Marian searches by its own rules
        translator = translator.with_search(**dataclasses.asdict(found.search_options))
    assert found.translate(SENTENCES) == translator.translate(SENTENCES)

"""An export of each kind gives the strings of the translator that it was made of."""

import pytest

from keras_transformer import export, serving
from keras_transformer.cli.verbs.export_command import KINDS
from keras_transformer.inference.translator import Translator

pytestmark = pytest.mark.tensorflow
SENTENCES = ["one two three four", "five", "", "two five five one"]
READERS = {
    "saved-model": serving.SavedModelTranslator,
    "litert": serving.LiteRTTranslator,
    "ctranslate2": serving.CTranslate2Translator,
    "marian": Translator.from_preset,
}


@pytest.mark.parametrize("kind", KINDS)
def test_an_export_translates_as_the_translator(kind, trained_run, post_norm_run, tmp_path):
    run = post_norm_run if kind == "marian" else trained_run
    translator = Translator.load(run, beam_size=2)
    path = getattr(export, KINDS[kind].exporter)(translator, tmp_path / "export")
    assert READERS[kind](path).translate(SENTENCES) == translator.translate(SENTENCES)

"""A disk that gets full in an export: one line names what was asked for, and nothing is left."""

import pytest

from keras_transformer.errors import CannotWrite
from keras_transformer.export import export_ctranslate2, export_litert
from keras_transformer.formats.litert import tensorflow_litert
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences
from tests.written_files import room_for

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def translator():
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)
    model = build(tokenizer)
    return Translator(model, tokenizer, beam_size=2, extra_length=3)


def check(export, translator, tmp_path):
    """Export with less and less room: each file of the export is the first too large one once."""
    whole = export(translator, tmp_path / "whole")
    sizes = sorted({file.stat().st_size for file in whole.rglob("*") if file.is_file()})
    for size in sizes:
        with room_for(size - 1), pytest.raises(CannotWrite) as raised:
            export(translator, tmp_path / "new")
        assert str(raised.value).startswith(f"Cannot write {tmp_path / 'new'}")
        assert str(raised.value).endswith(": File too large.")
        assert [path.name for path in tmp_path.iterdir()] == ["whole"]
    return len(sizes)


def test_ctranslate2(translator, tmp_path):
    assert check(export_ctranslate2, translator, tmp_path) >= 5


def test_litert(translator, tmp_path, monkeypatch):
    """The files beside the model, whose content does not matter here."""
    monkeypatch.setattr(tensorflow_litert, "signatures", lambda *_: {})
    monkeypatch.setattr(tensorflow_litert, "convert_signatures", lambda *_: bytes(10))
    assert check(export_litert, translator, tmp_path) >= 5


@pytest.mark.parametrize("size", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_litert_on_the_way_to_its_model(translator, tmp_path, size):
    with room_for(size), pytest.raises(CannotWrite) as raised:
        export_litert(translator, tmp_path / "new")
    assert str(raised.value) == f"Cannot write {tmp_path / 'new'}: File too large."
    assert list(tmp_path.iterdir()) == []

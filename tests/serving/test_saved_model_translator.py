"""`SavedModelTranslator` on a model whose answers are known."""

import json

import numpy as np
import pytest

from keras_transformer.errors import LongSentenceWarning, SentenceTooLong, UserInputError
from keras_transformer.formats.saved_model import reader as saved_model_translator
from keras_transformer.formats.saved_model.reader import SavedModelTranslator
from keras_transformer.runs.checksums import write_checksums

LONG = "one " * 500_000
TEXTS = ["two words", "", *(f"text {number}" for number in range(600)), LONG, "last"]


class FakeModel:
    """Its tokens are words, its translation is the source in upper case; it notes every call."""

    signatures = None  # those of a model, which a translator hands on

    def __init__(self):
        self.calls = []

    def __call__(self, signature, inputs):
        self.calls.append((signature, len(inputs), max(map(len, inputs))))
        if signature == "tokenize":
            return {"lengths": np.array([len(text.split()) for text in inputs], "int32")}
        outputs = [" ".join(text.split()[:3]).upper().encode() for text in inputs]
        return {"outputs": outputs, "scores": np.full(len(inputs), -0.5)}


@pytest.fixture
def model(monkeypatch):
    fake = FakeModel()
    monkeypatch.setattr(saved_model_translator, "_load", lambda path: fake)
    monkeypatch.setattr(
        SavedModelTranslator, "_call", lambda self, name, **inputs: fake(name, **inputs)
    )
    return fake


@pytest.fixture
def directory(tmp_path):
    (tmp_path / "saved_model.pb").touch()
    card = {"options": {"max_source_length": 4, "extra_length": 50}}
    (tmp_path / "model_card.json").write_text(json.dumps(card))
    return tmp_path


def test_a_long_text_is_tokenized_apart_from_short_ones(model, directory):
    with pytest.warns(LongSentenceWarning, match=r"`sentences\[602\]` has more than 4 tokens"):
        found = SavedModelTranslator(directory).translate(TEXTS)
    assert found == [" ".join(text.split()[:3]).upper() for text in TEXTS]
    calls = [call[1:] for call in model.calls if call[0] == "tokenize"]
    assert sum(number for number, _ in calls) == len(TEXTS)
    assert len(calls) == 2  # short texts do not need a call each
    assert max(number * longest for number, longest in calls) <= len(LONG)


def test_a_long_text_is_refused_by_its_index(model, directory):
    translator = SavedModelTranslator(directory, long_sentences="refuse")
    with pytest.raises(SentenceTooLong, match=r"`sentences\[602\]` has more than 4 tokens"):
        translator.translate(TEXTS)
    with pytest.raises(SentenceTooLong, match=r"`sources\[602\]` has more than 4 tokens"):
        translator.check_lengths(TEXTS)
    assert translator.translate([]) == []


def test_one_sentence_has_one_translation(model, directory):
    translator = SavedModelTranslator(directory)
    assert translator.translate("two words") == translator("two words") == "TWO WORDS"
    assert translator(["two words"]) == ["TWO WORDS"]


def test_a_damaged_file_is_told(model, directory):
    write_checksums(directory)
    SavedModelTranslator(directory)
    (directory / "saved_model.pb").write_bytes(b"damaged")
    with pytest.raises(UserInputError, match=r"saved_model\.pb is damaged"):
        SavedModelTranslator(directory)

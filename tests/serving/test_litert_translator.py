"""`LiteRTTranslator`: what it has beyond the translators of other exports."""

import json
import shutil

import pytest

from keras_transformer.errors import LongSentenceWarning, UserInputError
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.text import SentencePieceTokenizer
from tests.export.nasty_sentences import NASTY
from tests.litert_exports import LIMITS, litert_export, translator_of

pytestmark = pytest.mark.tensorflow

MISSING = object()
TEXTS = ["one two three four", "", "five", "  ", "three three one", "two five five one four two"]


@pytest.fixture(scope="module")
def exported(trained_run):
    return litert_export(trained_run, "float32")


@pytest.fixture(scope="module")
def translator(exported):
    return LiteRTTranslator(exported, num_threads=1)


@pytest.fixture
def copied(exported, tmp_path):
    return shutil.copytree(exported, tmp_path / "copied")


def test_scores_are_the_translators(trained_run, translator):
    expected = translator_of(trained_run).translate_nbest(TEXTS, 1)
    found = translator.translate_with_scores(iter(TEXTS))
    assert [text for text, _ in found] == [best[0][0] for best in expected]
    assert [score for _, score in found] == pytest.approx([best[0][1] for best in expected], 1e-4)
    assert translator.translate_with_scores(["", " "]) == [("", 0.0)] * 2


def test_nasty_sentences(trained_run, translator):
    texts = [text.decode("utf-8", "replace") for text in NASTY]
    found = translator.translate(texts)
    rows = translator.source_tokenizer.encode(texts)
    whole = [i for i, row in enumerate(rows) if len(row) < LIMITS["max_source_length"]]
    expected = translator_of(trained_run).translate([texts[i] for i in whole])
    assert [found[i] for i in whole] == expected


def test_a_long_sentence_is_cut_and_told_of(translator):
    with pytest.warns(LongSentenceWarning, match=r"`sentences\[1\]` .*its end is cut off"):
        _, longer, long = translator.translate(["one", "one " * 1_000_000, "one " * 100])
    assert longer == long


def test_half_a_surrogate_pair_is_what_its_bytes_are_to_a_reader_of_utf_8(translator):
    half, three = translator.translate(["one \ud800 two", "one \ufffd\ufffd\ufffd two"])
    assert half == three


DAMAGED = [
    ("{", "is damaged: it is not JSON"),
    pytest.param("[" * 100_000, "is damaged: brackets are nested too deep", id="nested"),
    ("[]", "does not belong to a LiteRT export"),
    ({"format": "another"}, "does not belong to a LiteRT export"),
    ({"format_version": 2}, "has format version 2; .* reads 1"),
    *(
        ({name: value}, f"{name}.* Copy the export again")
        for name, values in {
            "format_version": (MISSING, "1", None, 0, True, 1.5),
            "limits": (MISSING, 5, {}, {"max_source_length": "64"}, {"max_source_length": 1}),
            "source": (MISSING, "tokenizer.model", {}, {"tokenizer": []}),
            "target": (MISSING, {"tokenizer": "../passwords"}),
        }.items()
        for value in values
    ),
]


@pytest.mark.parametrize(("changes", "message"), DAMAGED)
def test_damaged_foreign_and_newer_settings(copied, changes, message):
    path = copied / "translation.json"
    if isinstance(changes, dict):
        settings = json.loads(path.read_text("utf-8")) | changes
        changes = json.dumps({k: value for k, value in settings.items() if value is not MISSING})
    path.write_text(changes, "utf-8")
    with pytest.raises(UserInputError, match=message) as raised:
        LiteRTTranslator(copied)
    assert "\n" not in str(raised.value)


def test_what_cannot_be_read_is_told_with_its_reason(copied):
    with pytest.raises(UserInputError, match=r"tokenizer.model contains no LiteRT export"):
        LiteRTTranslator(copied / "tokenizer.model")
    (copied / "translation.json").unlink()
    (copied / "translation.json").mkdir()
    with pytest.raises(
        UserInputError, match=r"Cannot read .*translation.json: it is not a regular file"
    ):
        LiteRTTranslator(copied)


def test_the_tokenizers_are_those_that_the_settings_name(copied, translator):
    """A file that no checksum covers is not read."""
    other = SentencePieceTokenizer.train(["another vocabulary"], vocabulary_size=20)
    other.save(copied / "source_tokenizer.model")
    found = LiteRTTranslator(copied, num_threads=1)
    assert found.source_tokenizer is found.tokenizer
    assert found.translate(TEXTS) == translator.translate(TEXTS)

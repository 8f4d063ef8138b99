"""`LiteRTTranslator` says what the `Translator` says, without Keras and TensorFlow."""

import concurrent.futures
import json
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer.errors import LongSentenceWarning, UserInputError
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.translator import Translator
from keras_transformer.installation import pip_install
from keras_transformer.text import SentencePieceTokenizer
from tests.export.nasty_sentences import NASTY
from tests.litert_exports import LIMITS, litert_export, translator_of
from tests.random_translation import build, sentences

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


def test_it_says_what_the_translator_says(trained_run, translator, exported):
    expected = translator_of(trained_run).translate_nbest(TEXTS, 1)
    found = translator.translate_with_scores(iter(TEXTS))
    assert [text for text, _ in found] == [best[0][0] for best in expected]
    assert [score for _, score in found] == pytest.approx([best[0][1] for best in expected], 1e-4)
    assert translator.translate(TEXTS) == [text for text, _ in found]
    by_twos = LiteRTTranslator(exported, num_threads=2, batch_size=2)
    assert by_twos.translate(TEXTS) == [text for text, _ in found]
    assert translator.translate([]) == []


def test_progress_is_shown_on_stderr(translator, capsys):
    translator.translate(TEXTS, progress=True)
    shown = capsys.readouterr()
    assert "4/4" in shown.err
    assert shown.out == ""


def test_nasty_sentences(trained_run, translator):
    texts = [text.decode("utf-8", "replace") for text in NASTY]
    found = translator.translate(texts)
    assert {text for text, source in zip(found, texts, strict=True) if not source.strip()} == {""}
    assert [translator.translate([text])[0] for text in texts[::5]] == found[::5]
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


def test_threads_share_it(translator):
    expected = translator.translate(TEXTS)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: translator.translate([text])[0], TEXTS * 5))
    assert found == expected * 5


def test_it_runs_where_there_is_neither_keras_nor_tensorflow(exported, translator):
    program = (
        "import sys\n"
        "for name in ('keras', 'tensorflow', 'tensorflow_text', 'jax', 'h5py'):\n"
        "    sys.modules[name] = None\n"
        "from keras_transformer.formats.litert.reader import LiteRTTranslator\n"
        "print(LiteRTTranslator(sys.argv[1]).translate(['one two three four'])[0])\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(exported)], capture_output=True, check=True
    )
    assert ran.stdout.decode("utf-8").strip() == translator.translate([TEXTS[0]])[0]


def test_without_litert_one_line_says_how_to_get_it(exported, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    with pytest.raises(UserInputError, match=re.escape(pip_install("litert"))):
        LiteRTTranslator(exported)


def test_a_directory_without_an_export(tmp_path):
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserInputError, match="holds no LiteRT export.*export litert"):
            LiteRTTranslator(directory)


@pytest.mark.parametrize("name", ["model.tflite", "tokenizer.model"])
def test_missing_and_damaged_files(copied, name):
    path = copied / name
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(UserInputError, match=f"{name} is damaged"):
        LiteRTTranslator(copied)
    path.unlink()
    with pytest.raises(UserInputError, match=f"Cannot read .*{name}: No such file"):
        LiteRTTranslator(copied)


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
    with pytest.raises(UserInputError, match=r"tokenizer.model holds no LiteRT export"):
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


def test_a_model_without_finite_scores_is_told_as_the_translator_does(tmp_path):
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=42)
    model = build(tokenizer)
    model.set_weights([np.full_like(weights, np.nan) for weights in model.get_weights()])
    expected = Translator(model, tokenizer, extra_length=2)
    found = LiteRTTranslator(export_litert(expected, tmp_path / "litert"), num_threads=1)
    texts = sentences(2)
    for translator in (expected, found):
        with pytest.raises(UserInputError, match="The model's scores are not finite numbers: "):
            translator.translate(["", *texts])
    assert found.translate_with_scores(["", " "]) == [("", 0.0)] * 2


def test_misuse(exported, translator):
    with pytest.raises(ValueError, match="`num_threads`"):
        LiteRTTranslator(exported, num_threads=0)
    with pytest.raises(ValueError, match="`batch_size`"):
        LiteRTTranslator(exported, batch_size=0)
    for wrong in ("one", ["one", b"two"]):
        with pytest.raises(ValueError, match="`sentences` must be a list of strings"):
            translator.translate(wrong)

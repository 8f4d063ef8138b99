"""Translators of exports say what the `Translator` says, without Keras and TensorFlow."""

import concurrent.futures
import re
import subprocess
import sys
import types

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.formats.ctranslate2.reader import CTranslate2Translator
from keras_transformer.formats.ctranslate2.writer import export_ctranslate2
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.inference.translator import Translator
from keras_transformer.installation import pip_install
from keras_transformer.text import SentencePieceTokenizer
from tests.export.nasty_sentences import NASTY
from tests.litert_exports import litert_export, translator_of
from tests.random_translation import build, sentences

SEARCH = {"beam_size": 4, "alpha": 0.0, "extra_length": 8}
TEXTS = ["one two three four", "", "five", "  ", "three three one", "two five five one four two"]


@pytest.fixture(
    scope="module",
    params=["ctranslate2", pytest.param("litert", marks=pytest.mark.tensorflow)],
)
def export(request, trained_run, tmp_path_factory):
    """An export: its path, the translator it is of, and how to open it; names in messages."""
    if request.param == "litert":
        return types.SimpleNamespace(
            extra="litert",
            title="LiteRT",
            package="ai_edge_litert.interpreter",
            path=litert_export(trained_run, "float32"),
            translator=translator_of(trained_run),
            write=export_litert,
            open=LiteRTTranslator,
            search={},
            files=("model.tflite", "tokenizer.model"),
        )
    translator = Translator.load(trained_run, **SEARCH)
    return types.SimpleNamespace(
        extra="ctranslate2",
        title="CTranslate2",
        package="ctranslate2",
        path=export_ctranslate2(translator, tmp_path_factory.mktemp("ctranslate2") / "model"),
        translator=translator,
        write=export_ctranslate2,
        open=CTranslate2Translator,
        search=SEARCH,
        files=("model.bin", "tokenizer.model", "shared_vocabulary.json"),
    )


@pytest.fixture(scope="module")
def engine(export):
    return export.open(export.path, num_threads=1, **export.search)


def test_it_says_what_the_translator_says(export, engine):
    expected = export.translator.translate(TEXTS)
    assert engine.translate(iter(TEXTS)) == expected
    by_twos = export.open(export.path, num_threads=2, batch_size=2, **export.search)
    assert by_twos.translate(TEXTS) == expected
    assert engine.translate([]) == []


def test_one_sentence_has_one_translation(engine):
    expected = engine.translate(TEXTS[:2])
    assert [engine.translate(text) for text in TEXTS[:2]] == expected
    assert engine(TEXTS[:2]) == [engine(text) for text in TEXTS[:2]] == expected


def test_progress_is_shown_on_stderr(engine, capsys):
    engine.translate(TEXTS, progress=True)
    shown = capsys.readouterr()
    assert "4/4" in shown.err
    assert shown.out == ""


def test_nasty_sentences(engine):
    texts = [text.decode("utf-8", "replace")[:200] for text in NASTY]
    found = engine.translate(texts)
    assert {text for text, source in zip(found, texts, strict=True) if not source.strip()} == {""}
    assert [engine.translate([text])[0] for text in texts[::5]] == found[::5]


def test_threads_share_it(engine):
    expected = engine.translate(TEXTS)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda text: engine.translate([text])[0], TEXTS * 3))
    assert found == expected * 3


def test_it_runs_where_there_is_neither_keras_nor_tensorflow(export, engine):
    program = (
        "import sys\n"
        "for name in ('keras', 'tensorflow', 'tensorflow_text', 'jax', 'h5py'):\n"
        "    sys.modules[name] = None\n"
        f"from keras_transformer.serving import {export.open.__name__} as open\n"
        f"print(open(sys.argv[1], **{export.search}).translate([sys.argv[2]])[0])\n"
    )
    command = [sys.executable, "-c", program, str(export.path), TEXTS[0]]
    ran = subprocess.run(command, capture_output=True, check=True)
    assert ran.stdout.decode("utf-8").strip() == engine.translate([TEXTS[0]])[0]


def test_without_its_runtime_one_line_says_how_to_get_it(export, monkeypatch):
    monkeypatch.setitem(sys.modules, export.package, None)
    with pytest.raises(
        UserInputError, match=re.escape(f"not installed: {pip_install(export.extra)}")
    ):
        export.open(export.path)


def test_a_directory_without_an_export(export, tmp_path):
    message = f"contains no {export.title} export.*export {export.extra}"
    for directory in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UserInputError, match=message):
            export.open(directory)


def test_missing_and_damaged_files(export, tmp_path):
    for path in export.path.iterdir():
        (tmp_path / path.name).symlink_to(path)
    for path in (tmp_path / name for name in export.files):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(UserInputError, match=f"Cannot read .*{path.name}: No such file"):
            export.open(tmp_path)
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(UserInputError, match=f"{path.name} is damaged"):
            export.open(tmp_path)
        path.write_bytes(content)


def test_a_model_without_finite_scores_is_told_as_the_translator_does(export, tmp_path):
    tokenizer = SentencePieceTokenizer.train(sentences(50), vocabulary_size=42)
    model = build(tokenizer)
    model.set_weights([np.full_like(weights, np.nan) for weights in model.get_weights()])
    translator = Translator(model, tokenizer, extra_length=2)
    path = export.write(translator, tmp_path / "model")
    searches = [{"extra_length": 2, "beam_size": size} for size in (1, 4) if export.search]
    engines = [export.open(path, num_threads=1, **search) for search in searches or [{}]]
    for engine in (translator, *engines):
        with pytest.raises(UserInputError, match="The model's scores are not finite numbers: "):
            engine.translate(["", *sentences(2)])
        assert engine.translate(["", " "]) == ["", ""]


def test_misuse(export, engine):
    for name in ("num_threads", "batch_size"):
        with pytest.raises(ValueError, match=f"`{name}`"):
            export.open(export.path, **{name: 0})
    for wrong in (b"one", ["one", b"two"]):
        with pytest.raises(ValueError, match="`sentences` must be a list of strings"):
            engine.translate(wrong)

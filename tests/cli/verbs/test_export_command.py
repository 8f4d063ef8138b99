"""`keras-transformer export`: a run on disk to files that translate like it."""

import dataclasses
import json
import shutil

import pytest

from keras_transformer.formats.ctranslate2.reader import CTranslate2Translator
from keras_transformer.formats.litert.reader import LiteRTTranslator
from keras_transformer.formats.saved_model.reader import SavedModelTranslator
from keras_transformer.inference.translator import Translator
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import Shortlist
from tests.cli.refusals import refusal

pytestmark = pytest.mark.tensorflow
SENTENCES = ["one two three four", "five five one two"]


@pytest.fixture
def export(printed):
    """Run the verb; gives the path that it printed."""
    return lambda *arguments: printed("export", *arguments).removesuffix("\n")


@pytest.mark.slow
def test_a_saved_model_translates_with_the_options_of_the_command(trained_run, tmp_path, export):
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    name = tmp_path / "digits"
    options = ["--beam-size", "2", "--alpha", "0", "--num-results", "1", "--max-source-length", "9"]
    path = export("saved-model", trained_run, name, *options)
    assert path == str(name / "1")
    assert export("saved-model", trained_run, name, "--beam-size", "1") == str(name / "2")
    translator = Translator.load(trained_run, beam_size=2, alpha=0.0)
    outputs = tf.saved_model.load(path).signatures["translate_nbest"](inputs=tf.constant(SENTENCES))
    ((first, score), *_) = translator.translate_nbest(SENTENCES[:1], 1)[0]
    assert outputs["outputs"].shape == (2, 1)
    assert outputs["outputs"].numpy()[0, 0].decode() == first
    assert outputs["scores"].numpy()[0, 0] == pytest.approx(score, abs=1e-5)
    card = json.loads((name / "1" / "model_card.json").read_text("utf-8"))
    given = {"beam_size": 2, "alpha": 0.0, "num_results": 1, "max_source_length": 9}
    search = SearchOptions(**given, max_repeats=8)  # as in the run's own search
    others = {"jit_compile": False, "shortlist": False, "terms": False}
    assert card["options"] == dataclasses.asdict(search) | others


@pytest.mark.slow
def test_a_saved_model_may_be_compiled_by_xla(trained_run, tmp_path, export):
    path = tmp_path / "digits" / "1"
    options = ["--xla", "--beam-size", "1"]
    assert export("saved-model", trained_run, tmp_path / "digits", *options) == str(path)
    card = json.loads((path / "model_card.json").read_text("utf-8"))
    assert card["options"]["jit_compile"]
    expected = Translator.load(trained_run, beam_size=1).translate(SENTENCES)
    assert SavedModelTranslator(path).translate(SENTENCES) == expected


def test_what_a_shortlist_does_not_go_with_is_one_line(trained_run, tmp_path, call):
    code, _, error = call("export", "saved-model", trained_run, tmp_path / "to", "--shortlist")
    assert (code, "has no shortlist" in error) == (2, True)
    run = shutil.copytree(trained_run, tmp_path / "run")
    tokenizer, _ = RunDirectory.open(run).load_tokenizers()
    RunDirectory.open(run).write_shortlist(Shortlist([0], [], [], tokenizer))
    code, _, error = call("export", "saved-model", run, tmp_path / "to", "--shortlist", "--xla")
    assert (code, error.count("\n")) == (2, 1)
    assert "`jit_compile` must be False" in error
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize(
    ("reader", "arguments"),
    [
        pytest.param(
            LiteRTTranslator,
            ["litert", "--precision=int8", "--beam-size=1"],
            marks=pytest.mark.slow,
        ),
        (CTranslate2Translator, ["ctranslate2"]),
    ],
)
def test_a_model_for_another_engine_translates(reader, arguments, trained_run, tmp_path, export):
    path = export(*arguments, trained_run, tmp_path / "digits")
    assert path == str(tmp_path / "digits")
    expected = Translator.load(trained_run, beam_size=1).translate(SENTENCES)
    assert reader(path).translate(SENTENCES) == expected


@pytest.mark.parametrize("kind", ["saved-model", "litert", "ctranslate2"])
def test_a_missing_run_is_one_line(kind, tmp_path, call):
    said = refusal(call("export", kind, tmp_path / "run", tmp_path / "out"))
    missing = tmp_path / "run"
    shipped = " Shipped models: en_de, de_en."  # since a name may have been meant
    assert said == f"error: There is no run directory {missing}.{shipped}\n"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--max-source-length=1", "--extra-length=2147483647"])
def test_a_limit_that_cannot_be_is_one_line(flag, trained_run, tmp_path, call):
    error = refusal(call("export", "saved-model", trained_run, tmp_path / "to", flag))
    assert flag[2:].partition("=")[0].replace("-", "_") in error
    assert not (tmp_path / "to").exists()


@pytest.mark.parametrize("kind", ["litert", "ctranslate2"])
def test_a_directory_with_files_is_left_alone(kind, trained_run, tmp_path, call):
    (tmp_path / "mine.txt").write_text("mine")
    assert str(tmp_path) in refusal(call("export", kind, trained_run, tmp_path))
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

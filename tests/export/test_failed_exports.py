"""Exports that fail: one line names what was asked for, and nothing is left."""

import pytest
import tensorflow as tf

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.export import export_ctranslate2, export_litert, export_saved_model
from keras_transformer.files import PARTIAL_DIRECTORY
from keras_transformer.formats.litert import tensorflow_litert
from keras_transformer.inference.translator import Translator
from tests.random_translation import build
from tests.written_files import room_for

pytestmark = pytest.mark.tensorflow


@pytest.fixture(scope="module")
def translator(tokenizer):
    return Translator(build(tokenizer), tokenizer, beam_size=2, extra_length=3)


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


@pytest.mark.parametrize(
    ("export", "size"),
    [
        (export_saved_model, 10_000),
        (export_litert, 1000),
        pytest.param(export_litert, 10_000, marks=pytest.mark.slow),
    ],
)
def test_on_the_way_to_the_model(export, size, translator, tmp_path):
    with room_for(size), pytest.raises(CannotWrite) as raised:
        export(translator, tmp_path / "new")
    assert str(raised.value) == f"Cannot write {tmp_path / 'new'}: File too large."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("export", [export_saved_model, export_litert])
def test_an_interrupted_export_leaves_nothing(export, translator, tmp_path, monkeypatch):
    saved_to = []

    def interrupt(module, path, **_):
        saved_to.append(path)
        with open(f"{path}/saved_model.pb", "wb") as file:
            file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(tf.saved_model, "save", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export(translator, tmp_path / "new")
    # A killed one is removed next: it lies beside its target, or in it as a version.
    target = tmp_path / "new" if export is export_saved_model else tmp_path
    assert saved_to[0].startswith(f"{target}/{PARTIAL_DIRECTORY}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("export", [export_litert, export_ctranslate2])
def test_a_directory_that_holds_something_is_left_alone(export, translator, tmp_path):
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(UserInputError, match="already contains files"):
        export(translator, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("export", "options", "message"),
    [
        (export_saved_model, {"precision": "float16"}, "`precision` must be one of"),
        (export_saved_model, {"num_results": 5}, "num_results=5, beam_size=2"),
        (export_saved_model, {"alpha": -1}, "`alpha` must be a number >= 0"),
        (export_litert, {"precision": "int4"}, "`precision` must be one of"),
        (export_litert, {"beam_size": 0}, "`beam_size` must be"),
        (export_ctranslate2, {"precision": "int4"}, "Received: precision='int4'$"),
    ],
)
def test_options_that_break_their_rule_leave_nothing(
    export, options, message, translator, tmp_path
):
    with pytest.raises(ValueError, match=message):
        export(translator, tmp_path / "new", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("export", [export_saved_model, export_litert])
def test_another_backend_is_refused(export, translator, tmp_path, monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(UserInputError, match="KERAS_BACKEND=tensorflow"):
        export(translator, tmp_path / "new")
    assert list(tmp_path.iterdir()) == []

"""Systems without tensorflow-text, and without what Windows lacks; both are simulated here."""

import platform
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.installation import requiring_tensorflow_text
from tests.python_programs import run_python

# Without the names of POSIX that the package uses. Other libraries have been imported by then;
# filelock, which has its own code for Windows, needs the flags of `os.open` at every lock.
WITHOUT_POSIX = """
import os, signal, sys
import filelock, h5py, keras, numpy, sentencepiece

sys.modules["fcntl"] = None
flags = {name: getattr(os, name) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")}
for name in (*flags, "geteuid", "sysconf", "set_blocking"):
    delattr(os, name)
for name in ("SIGHUP", "SIGCONT"):
    delattr(signal, name)

import keras_transformer as kt
from keras_transformer.files import open_own_file, write_directory
from keras_transformer.training.callbacks.training_limits import SIGNALS, StopOnInterrupt

vars(os).update(flags)
assert list(SIGNALS.values()) == ["interrupted", "terminated"]
words = "eins zwei drei vier fünf sechs".split()
texts = [f"{a} {b} {c}" for a in words for b in words for c in words]
tokenizer = kt.SentencePieceTokenizer.train(texts, vocabulary_size=30)
model = kt.build_transformer(
    "tiny", vocabulary_size=30, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=16,
    intermediate_dim=32, num_heads=2,
)
model.compile(kt.transformer_adam(16), kt.LabelSmoothingCrossEntropy())
with StopOnInterrupt():
    model.fit(kt.data.fit_texts(texts, texts, tokenizer, batch_tokens=256), epochs=1, verbose=0)
run = kt.RunDirectory.create("runs/own")
run.start(model=model, tokenizer=tokenizer, settings={})
model.save_weights(run.weights_path)
expected = kt.Translator(model, tokenizer).translate(texts[:3])
assert kt.Translator.load("runs/own").translate(texts[:3]) == expected
os.close(open_own_file(run.path / "own", os.O_RDWR | os.O_CREAT))
write_directory("made", lambda: "new", lambda path: (path / "file").write_text("text"))
print("all of it ran")
"""


@pytest.fixture
def without_tensorflow_text(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)

    def on(system, machine):
        monkeypatch.setattr(platform, "system", lambda: system)
        monkeypatch.setattr(platform, "machine", lambda: machine)
        with pytest.raises(UserInputError) as caught, requiring_tensorflow_text():
            import tensorflow_text  # noqa: F401
        return str(caught.value)

    return on


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Darwin", "x86_64")])
def test_where_no_package_exists_one_line_says_what_works(system, machine, without_tensorflow_text):
    assert without_tensorflow_text(system, machine) == (
        f"SavedModels need tensorflow-text, which has no package for {system} on {machine}. Runs "
        "and exports to LiteRT and CTranslate2 work without it. On Windows, use WSL 2."
    )


@pytest.mark.parametrize(("system", "machine"), [("Linux", "x86_64"), ("Darwin", "arm64")])
def test_elsewhere_the_command_that_installs_it_is_given(system, machine, without_tensorflow_text):
    line = without_tensorflow_text(system, machine)
    assert line.startswith("SavedModels need tensorflow-text: pip install ")
    assert "[tensorflow]" in line


def test_without_tensorflow_itself_the_line_names_tensorflow(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    message = "^TensorFlow is not installed: pip install "
    with pytest.raises(UserInputError, match=message), requiring_tensorflow_text():
        import tensorflow  # noqa: F401


@pytest.mark.tensorflow
@pytest.mark.skipif(sys.platform == "win32", reason="Linux has the package that is hidden here")
def test_an_export_that_needs_it_is_refused_before_anything_is_written(tmp_path):
    program = """
import platform, sys
sys.modules["tensorflow_text"] = None
platform.system = lambda: "Windows"
from keras_transformer.export import export_saved_model
from keras_transformer.inference.translator import Translator
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build

tokenizer = SentencePieceTokenizer.train(["one two three four five"], vocabulary_size=20)
translator = Translator(build(tokenizer), tokenizer)
try:
    export_saved_model(translator, "exported")
except ValueError as error:
    print(error)
"""
    printed = run_python("-c", program, cwd=tmp_path).stdout
    assert printed.startswith("SavedModels need tensorflow-text, which has no package for Windows")
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.commands
@pytest.mark.skipif(sys.platform == "win32", reason="has none of the names that are removed here")
def test_training_and_translating_need_no_names_that_windows_lacks(tmp_path):
    assert run_python("-c", WITHOUT_POSIX, cwd=tmp_path).stdout == "all of it ran\n"

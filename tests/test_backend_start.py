import json
import os
import subprocess
import sys

import keras
import pytest

from keras_transformer import installation
from keras_transformer.errors import UserInputError
from keras_transformer.installation import held_stderr
from keras_transformer.training import TrainingRun, training_model


def start(script, **environment):
    """Run a script in a process of its own; gives its stderr."""
    variables = {key: value for key, value in os.environ.items() if key != "TF_CPP_MIN_LOG_LEVEL"}
    command = [sys.executable, "-c", script]
    done = subprocess.run(
        command, env={**variables, **environment}, capture_output=True, text=True, check=True
    )
    return done.stderr


START = "from keras_transformer.installation import start_backend_quietly as s; s(); import keras"


def test_a_command_starts_without_a_word():
    assert start(f"{START}; keras.ops.ones(3) + 1") == ""


@pytest.mark.slow
def test_what_is_imported_is_no_work_for_the_garbage_collector():
    script = f"{START}; import gc; assert gc.isenabled(); assert gc.get_freeze_count() > 100_000"
    assert start(script) == ""


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_user_who_sets_the_log_level_sees_the_notes():
    assert start(START, TF_CPP_MIN_LOG_LEVEL="0") != ""


@pytest.mark.parametrize(
    ("backend", "message"),
    [
        ("tensorflow", "error: Keras's backend tensorflow is not installed: pip install "),
        ("jax", "error: Keras's backend jax is not installed: pip install "),
        (
            "numpy",
            "error: KERAS_BACKEND must be one of tensorflow, jax for commands and training. ",
        ),
        ("foo", "error: KERAS_BACKEND must be one of tensorflow, jax for commands and training."),
    ],
)
def test_a_backend_that_is_not_there_is_one_line(backend, message):
    blocked = {backend: None} if backend in ("tensorflow", "jax") else {}
    script = (
        f"import sys; sys.modules |= {blocked}\n"
        "from keras_transformer.toolkit.cli import main; assert main(['translate', 'run']) == 2"
    )
    error = start(script, KERAS_BACKEND=backend)
    assert error.startswith(message)
    assert error.count("\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "environment", "name"),
    [
        (None, {"KERAS_BACKEND": ""}, "tensorflow"),
        ({"backend": "jax"}, {"KERAS_BACKEND": ""}, "jax"),
        ({"backend": "torch"}, {"KERAS_BACKEND": "jax"}, "jax"),
    ],
)
def test_the_backend_has_the_name_that_keras_finds(settings, environment, name, tmp_path):
    if settings is not None:
        (tmp_path / "keras.json").write_text(json.dumps(settings))
    script = (
        "import sys; from keras_transformer.installation import backend_name\n"
        "found = backend_name(); assert 'keras' not in sys.modules\n"
        f"import keras; assert found == keras.backend.backend() == {name!r}, found"
    )
    start(script, KERAS_HOME=str(tmp_path), **environment)


def test_a_backend_of_keras_json_must_be_supported(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    script = (
        "import sys; from keras_transformer.installation import backend_name\n"
        "try: backend_name()\n"
        "except ValueError as error: print(error, file=sys.stderr)"
    )
    error = start(script, KERAS_HOME=str(tmp_path), KERAS_BACKEND="")
    assert error.startswith("KERAS_BACKEND must be one of tensorflow, jax for commands")
    assert error.endswith(". Received: torch\n")


def test_what_was_held_is_shown_when_the_start_fails(capfd):
    def fail():
        os.write(2, b"native note\n")
        raise ImportError("no backend")

    with pytest.raises(ImportError), held_stderr():
        fail()
    assert capfd.readouterr().err == "native note\n"


def test_stderr_works_again_afterwards(capfd):
    with held_stderr():
        os.write(2, b"native note\n")
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"


@pytest.mark.parametrize(
    ("cores", "batches", "expected"),
    [(2, 1, None), (2, 2, "1"), (2, 9, "1"), (16, 2, "8"), (16, 100, "2"), (64, 100, "8")],
)
def test_batches_at_once_divide_the_cores(monkeypatch, cores, batches, expected):
    monkeypatch.setenv(installation.THREADS, "")  # so that its end is put back
    monkeypatch.delenv(installation.THREADS)
    monkeypatch.setattr(installation, "num_cores", lambda: cores)
    installation.start_backend_quietly(batches=batches)
    assert os.environ.get(installation.THREADS) == expected
    monkeypatch.setenv(installation.THREADS, "3")  # what the user wants
    installation.start_backend_quietly(batches=batches)
    assert os.environ[installation.THREADS] == "3"


def test_trainings_name_the_backends_that_they_run_on(monkeypatch, tmp_path):
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    monkeypatch.setattr(keras.backend, "backend", lambda: "torch")
    message = "one of tensorflow, jax for commands and training. Received: torch"
    with pytest.raises(UserInputError, match=message):
        training_model(model)
    with pytest.raises(UserInputError, match=message), TrainingRun(tmp_path / "run", steps=1):
        pass
    assert not (tmp_path / "run").exists()

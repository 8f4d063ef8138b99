"""Models load after `import keras_transformer` alone, whichever of it and Keras comes first."""

import os
import pathlib
import subprocess
import sys

import pytest

from keras_transformer import build_transformer
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import training_metrics
from keras_transformer.optimizers import transformer_adam

ROOT = pathlib.Path(__file__).parents[1]
LOAD = "model = keras.models.load_model(sys.argv[1]); print(type(model.optimizer).__name__)"
UNTOUCHED = """
import sys, keras_transformer, keras, importlib.machinery
assert type(keras.__spec__.loader) is importlib.machinery.SourceFileLoader
assert keras.__loader__ is keras.__spec__.loader
print([finder for finder in sys.meta_path if "keras_transformer" in type(finder).__module__])
"""


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    """The file of a compiled model: it names layers, loss, metrics, optimizer and schedule."""
    model = build_transformer("tiny", vocabulary_size=8, hidden_dim=8, num_heads=2)
    loss = LabelSmoothingCrossEntropy(0.1)
    model.compile(transformer_adam(hidden_dim=8), loss, **training_metrics(loss))
    path = tmp_path_factory.mktemp("model") / "model.keras"
    model.save(path)
    return path


def run(program, *arguments, options=()):
    """What a program of Python prints; its last line of errors if it fails."""
    result = subprocess.run(
        [sys.executable, *options, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "KERAS_BACKEND": "numpy"},  # the quickest to start
    )
    return result.stdout.strip() if result.returncode == 0 else result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "imports",
    [
        "keras_transformer, keras",
        "keras, keras_transformer",
        pytest.param("keras_transformer.metrics, keras", marks=pytest.mark.slow),
        "keras_transformer.losses, keras",
        "keras_transformer.decoding, keras",
        pytest.param("keras_transformer.models, keras", marks=pytest.mark.slow),
        pytest.param("keras_transformer.schedules, keras", marks=pytest.mark.slow),
    ],
)
def test_a_saved_model_loads(imports, saved_model):
    assert run(f"import sys, {imports}; {LOAD}", saved_model) == "AdamWithGradientNorm"


def test_keras_is_as_if_imported_without_the_package():
    assert run(UNTOUCHED) == "[]"


def test_the_package_imports_without_keras():
    found = run("import keras_transformer, keras", options=["-S"])
    assert found == "ModuleNotFoundError: No module named 'keras'"

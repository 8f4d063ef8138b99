"""A model saved on one backend is the same model on the other."""

import keras
import numpy as np
import pytest

from tests.models.test_transformer import batch, logits_of, small_model
from tests.python_programs import run_python

OTHER = {"tensorflow": "jax", "jax": "tensorflow", "torch": "jax"}[keras.backend.backend()]
MODELS = {"post-norm": {}, "pre-norm": {"normalize_first": True, "positions": "learned"}}
PROGRAM = """
import sys
import keras
import numpy as np
import keras_transformer

backend, *names = sys.argv[1:]
assert keras.backend.backend() == backend
inputs = dict(np.load("inputs.npz"))
for name in names:
    model = keras.saving.load_model(f"{name}.keras", safe_mode=True)
    np.save(f"{name}.npy", keras.ops.convert_to_numpy(model(inputs)))
    model.save(f"{name}-again.keras")
"""


@pytest.mark.slow
def test_saved_models_give_the_same_logits_on_the_other_backend(tmp_path):
    pytest.importorskip(OTHER)
    models, inputs = {name: small_model(**options) for name, options in MODELS.items()}, batch()
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    np.savez(tmp_path / "inputs.npz", **inputs)
    run_python("-c", PROGRAM, OTHER, *models, cwd=tmp_path, KERAS_BACKEND=OTHER)
    for name, model in models.items():
        logits = np.load(tmp_path / f"{name}.npy")
        np.testing.assert_allclose(logits, logits_of(model, inputs), atol=1e-5)
        again = keras.saving.load_model(tmp_path / f"{name}-again.keras", safe_mode=True)
        np.testing.assert_array_equal(logits_of(again, inputs), logits_of(model, inputs))

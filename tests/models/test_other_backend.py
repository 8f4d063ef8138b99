"""A model saved on one backend is the same model on the other."""

import os
import subprocess
import sys

import keras
import numpy as np
import pytest

from tests.models.test_transformer import batch, logits_of, small_model

OTHER = {"tensorflow": "jax", "jax": "tensorflow"}[keras.backend.backend()]
PROGRAM = """
import sys
import keras
import numpy as np
import keras_transformer.layers

assert keras.backend.backend() == sys.argv[1]
model = keras.saving.load_model("model.keras", safe_mode=True)
inputs = dict(np.load("inputs.npz"))
np.save("logits.npy", keras.ops.convert_to_numpy(model(inputs)))
"""


@pytest.mark.parametrize("overrides", [{}, {"normalize_first": True, "positions": "learned"}])
def test_a_saved_model_gives_the_same_logits_on_the_other_backend(overrides, tmp_path):
    pytest.importorskip(OTHER)
    model, inputs = small_model(**overrides), batch()
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", **inputs)
    environment = {**os.environ, "KERAS_BACKEND": OTHER, "PYTHONPATH": os.getcwd()}
    subprocess.run(
        [sys.executable, "-c", PROGRAM, OTHER], cwd=tmp_path, env=environment, check=True
    )
    np.testing.assert_allclose(
        np.load(tmp_path / "logits.npy"), logits_of(model, inputs), atol=1e-5
    )

"""`.keras` files and weights of commit 446136d, with the numbers that it computed from them.

`quantized.zip` has a compiled, frozen and quantized `.keras` file, and its logits.
"""

import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest

from keras_transformer.models import Transformer, build_language_model, build_transformer
from keras_transformer.runs.model_weights import load_safetensors

FILES = pathlib.Path(__file__).parent / "earlier_files"
SMALL = {"num_decoder_layers": 1, "hidden_dim": 8, "intermediate_dim": 16, "num_heads": 2}
TARGETS = np.array([[1, 5, 6], [1, 7, 8]], "int32")
INPUTS = {
    "transformer": {
        "source_ids": np.array([[3, 4, 5, 2], [6, 2, 0, 0]], "int32"),
        "target_ids": TARGETS,
    },
    "language_model": {"token_ids": TARGETS},
}


def new_model(name):
    if name == "language_model":
        return build_language_model(vocabulary_size=12, **SMALL)
    return build_transformer(
        vocabulary_size=12,
        source_vocabulary_size=10,
        num_encoder_layers=1,
        normalize_first=True,
        use_bias=True,
        positions="learned",
        max_length=8,
        tie_weights=False,
        use_logits_bias=True,
        **SMALL,
    )


def loaded_from_safetensors(name):
    model = new_model(name)
    load_safetensors(model, FILES / f"{name}.safetensors")
    return model


def loaded_from_weights(name, folder):
    """A new model with the weights of the `.keras` file, which are one of `save_weights`."""
    path = folder / f"{name}.weights.h5"
    keras.saving.load_model(FILES / f"{name}.keras").save_weights(path)
    model = new_model(name)
    model.load_weights(path)
    return model


@pytest.mark.parametrize("name", INPUTS)
def test_a_model_of_an_earlier_version_predicts_as_it_did(name, tmp_path):
    expected = np.load(FILES / "logits.npz")[name]
    for model in (
        keras.saving.load_model(FILES / f"{name}.keras"),
        loaded_from_safetensors(name),
        loaded_from_weights(name, tmp_path),
    ):
        logits = keras.ops.convert_to_numpy(model(INPUTS[name]))
        np.testing.assert_allclose(logits, expected, atol=1e-6)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(FILES / "quantized.zip") as files:
        files.extractall(path)
    return path


@pytest.fixture(scope="module")
def expected(folder):
    return json.loads((folder / "expected.json").read_bytes())


def test_a_frozen_and_quantized_model_stays_so(folder, expected, tmp_path):
    """As it was, and written anew."""
    model = keras.saving.load_model(folder / "quantized.keras")
    Transformer.of(model).save(tmp_path / "again.keras")
    again = keras.saving.load_model(tmp_path / "again.keras")
    assert type(again) is Transformer
    for each in (model, again):
        logits = keras.ops.convert_to_numpy(each(INPUTS["transformer"]))
        np.testing.assert_allclose(logits, expected["quantized"], atol=1e-4)
        frozen = [layer.name for layer in each.layers if layer.weights and not layer.trainable]
        assert frozen == ["encoder_layer_1"]
    assert model.compiled

"""Models that earlier versions wrote; `earlier_files` is of commit 446136d, numbers and all.

`runs.zip` has a run with every option away from its default, one of a language model, and a
compiled, frozen and quantized `.keras` file.
"""

import json
import pathlib
import zipfile

import keras
import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.inference.translator import Translator
from keras_transformer.models import Transformer, build_language_model, build_transformer
from keras_transformer.runs.model_weights import load_safetensors
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.search_options import SearchOptions

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


OPTIONS = {
    "num_encoder_layers": 1, "num_decoder_layers": 2, "hidden_dim": 12, "intermediate_dim": 10,
    "num_heads": 2, "key_dim": 5, "value_dim": 3, "dropout": 0.2, "positions": "words",
    "attention_dropout": 0.1, "activation_dropout": 0.3, "word_dropout": 0.05,
    "activation": "gelu", "layer_norm_epsilon": 1e-3, "residual_connection": "encoder_deepnorm",
    "final_norm": True, "use_bias": True, "attention_window": 3, "tie_weights": False,
    "use_logits_bias": True, "max_length": 64, "vocabulary_size": 32,
    "source_vocabulary_size": 24, "padding_id": 0, "dtype": "float64", "name": "mine",
}  # fmt: skip
OF_LANGUAGE_MODEL = {
    **OPTIONS, "num_encoder_layers": 0, "source_vocabulary_size": None, "max_length": 32,
    "residual_connection": "b2t", "padding_id": 0,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("earlier")
    with zipfile.ZipFile(FILES / "runs.zip") as files:
        files.extractall(path)
    return path


@pytest.fixture(scope="module")
def expected(folder):
    return json.loads((folder / "expected.json").read_bytes())


def has_options(model, options):
    found = model.options.to_config()
    assert {name: found[name] for name in options} == options
    classes = [found[name]["class_name"] for name in ("kernel_initializer", "bias_initializer")]
    assert classes == ["HeUniform", "Ones"]
    assert found["target_word_starts"]
    return bool(found["source_word_starts"]) == bool(options["source_vocabulary_size"])


def test_a_run_translates_as_it_did(folder, expected):
    translator = Translator.load(folder / "transformer_run", extra_length=6)
    assert has_options(translator.models[0], OPTIONS)
    lines = ["one two three", "two three four", "four one two"]
    targets = ["eins zwei drei", "zwei drei vier", "vier eins zwei"]
    assert translator.translate(lines) == expected["transformer_run"]["translations"]
    scores = translator.score(lines, targets)
    np.testing.assert_allclose(scores, expected["transformer_run"]["scores"], rtol=1e-5)
    other = RunDirectory.open(folder / "transformer_run").load_model(dropout=0.4, word_dropout=0.6)
    assert has_options(other, {**OPTIONS, "dropout": 0.4, "word_dropout": 0.6})


def test_a_language_model_continues_as_it_did(folder, expected):
    model = RunDirectory.open(folder / "language_model_run").load_model()
    assert has_options(model, OF_LANGUAGE_MODEL)
    options = SearchOptions(beam_size=2, extra_length=3)
    ids, scores = SequenceGenerator(model).search([[5, 6], [7, 0]], options=options)
    assert keras.ops.convert_to_numpy(ids).tolist() == expected["language_model_run"]["ids"]
    np.testing.assert_allclose(scores, expected["language_model_run"]["scores"], rtol=1e-5)


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

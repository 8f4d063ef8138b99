"""Weights of a model with other options: the same shapes must not be enough."""

import h5py
import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import training
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.models import build_transformer

pytestmark = pytest.mark.core

BATCH = {"source_ids": np.array([[5, 6, 2]]), "target_ids": np.array([[1, 7, 8]])}
OPTIONS = {
    "num_heads": {"num_heads": 2},
    "attention_window": {"attention_window": 3},
    "positions": {"positions": "rotary"},
}


def small(**options):
    return build_transformer("tiny", vocabulary_size=20, **options)


def written(model, path):
    model.save_weights(path)
    return path


def without_options(path):
    """A file as earlier versions wrote it."""
    with h5py.File(path, "r+") as file:
        names = []
        file.visit(lambda name: names.append(name) if name.endswith("/options") else None)
        assert names
        for name in names:
            del file[name]
    return path


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize("there_and_back", [False, True])
def test_a_file_of_another_model_is_refused(option, there_and_back, tmp_path):
    models = [small(), small(**OPTIONS[option])]
    one, other = models[::-1] if there_and_back else models
    shapes = [[weight.shape for weight in model.weights] for model in models]
    assert shapes[0] == shapes[1]
    path = written(one, tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match=f"`{option}` must be .*Received: {option}="):
        other.load_weights(path)


def test_a_file_of_the_same_model_and_one_of_an_earlier_version(tmp_path):
    model, other = small(num_heads=2), small(num_heads=2)
    path = written(model, tmp_path / "model.weights.h5")
    expected = ops.convert_to_numpy(model(BATCH))
    assert np.abs(ops.convert_to_numpy(other(BATCH)) - expected).max() > 0.01
    other.load_weights(path)
    np.testing.assert_allclose(ops.convert_to_numpy(other(BATCH)), expected, atol=1e-6)
    third = small(num_heads=2)
    third.load_weights(without_options(path))
    np.testing.assert_allclose(ops.convert_to_numpy(third(BATCH)), expected, atol=1e-6)


def test_a_layer_in_a_model_of_ones_own(tmp_path):
    def model(heads, size):
        x = keras.Input((None, 8))
        return keras.Model(x, MultiHeadAttention(heads, size)(x))

    path = written(model(2, 4), tmp_path / "model.weights.h5")
    with pytest.raises(ValueError, match="`num_heads` must be 2.*Received: num_heads=4"):
        model(4, 2).load_weights(path)


def test_checkpoints_of_an_earlier_version_and_of_this_one_are_averaged(tmp_path):
    models = [small(), small()]
    paths = [written(m, tmp_path / f"{n}.weights.h5") for n, m in enumerate(models)]
    without_options(paths[0])
    for order in (paths, paths[::-1]):
        training.average_checkpoints(order, tmp_path / "mean.weights.h5")
        mean = small()
        mean.load_weights(tmp_path / "mean.weights.h5")
        first = [
            np.mean(pair, axis=0) for pair in zip(*(m.get_weights() for m in models), strict=True)
        ]
        for found, expected in zip(mean.get_weights(), first, strict=True):
            if found.dtype == "float32":
                np.testing.assert_allclose(found, expected, atol=1e-6)

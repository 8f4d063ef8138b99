"""Dropout: its rate, its scale, its masks, in graphs and gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers.dense import VALUES, Dropout
from tests.layers.gradients import outputs_and_gradients

pytestmark = pytest.mark.core


def dropped(outputs):
    return ops.convert_to_numpy(outputs) == 0


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.9])
def test_the_rate_is_that_of_the_zeros_and_the_mean_stays(rate):
    outputs = ops.convert_to_numpy(Dropout(rate, seed=1)(np.ones((500, 2001)), training=True))
    num = outputs.size
    assert abs(np.mean(outputs == 0) - rate) < 5 * np.sqrt(rate * (1 - rate) / num)
    kept = VALUES / (VALUES - round(rate * VALUES))
    np.testing.assert_allclose(outputs[outputs != 0], kept, rtol=1e-6)
    assert kept == pytest.approx(1 / (1 - rate), rel=1e-4)


def test_neighbours_draw_independently():
    """Two masks come from one number of 32 bits."""
    zeros = dropped(Dropout(0.5, seed=2)(np.ones((1000, 1000)), training=True)).astype(float)
    for both in (zeros[:, ::2] * zeros[:, 1::2], zeros[:, 1:-1:2] * zeros[:, 2::2]):
        assert abs(both.mean() - 0.25) < 5 * np.sqrt(0.25 * 0.75 / both.size)


def test_a_draw_differs_from_the_next_and_a_seed_repeats_them():
    x = np.ones((4, 7, 9), "float32")
    layer, again = Dropout(0.4, seed=3), Dropout(0.4, seed=3)
    first, second = dropped(layer(x, training=True)), dropped(layer(x, training=True))
    assert first.shape == x.shape
    assert (first != second).any()
    np.testing.assert_array_equal(dropped(again(x, training=True)), first)
    np.testing.assert_array_equal(dropped(again(x, training=True)), second)
    assert (dropped(Dropout(0.4, seed=4)(x, training=True)) != first).any()


@pytest.mark.parametrize("shape", [(5,), (3, 1), (2, 3, 6)])
def test_shapes_dtypes_and_what_stays_as_it_is(shape):
    x = np.arange(1, 1 + np.prod(shape), dtype="float32").reshape(shape)
    for layer, training in ((Dropout(0.5), False), (Dropout(0.0), True), (Dropout(0.5), None)):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, training=training)), x)
    outputs = Dropout(0.5, dtype="mixed_bfloat16")(x, training=True)
    assert tuple(outputs.shape) == shape
    assert keras.backend.standardize_dtype(outputs.dtype) == "bfloat16"
    assert Dropout.from_config(Dropout(0.2, seed=5).get_config()).seed == 5


def test_a_shape_of_its_own_is_refused():
    with pytest.raises(ValueError, match=r"`noise_shape` must be None.*noise_shape=\(2, 1\)"):
        Dropout(0.5, noise_shape=(2, 1))
    assert Dropout(0.5, noise_shape=None).rate == 0.5  # as `keras.layers.Dropout` writes it


def test_the_gradient_has_the_mask_of_the_values():
    x = np.ones((6, 8), "float32")
    layer = Dropout(0.5, seed=6)
    outputs, (gradient,), _ = outputs_and_gradients(layer, [x], 3 * x, training=True)
    np.testing.assert_allclose(gradient, 3 * outputs)
    assert dropped(outputs).any()


def test_a_compiled_model_draws_anew_in_every_step():
    model = keras.Sequential([keras.Input((8,)), Dropout(0.5, seed=7)])
    model.compile(keras.optimizers.SGD(0.0), "mse", jit_compile=True)
    x, zeros = np.ones((16, 8), "float32"), np.zeros((16, 8), "float32")
    losses = [model.train_on_batch(x, zeros) for _ in range(3)]
    assert len(set(losses)) == 3  # 4 x the share that was kept

"""The paper's Adam against its update written out in float64."""

import keras
import numpy as np
import pytest

from keras_transformer.optimizers import (
    AdamWithGradientNorm,
    Muon,
    transformer_adam,
    transformer_optimizer,
)


def test_three_updates_follow_the_formula():
    optimizer = transformer_adam(hidden_dim=16, warmup_steps=4, scale=0.5)
    weight = keras.Variable([1.0, -2.0])
    expected = np.array([1.0, -2.0])
    mean, square = np.zeros(2), np.zeros(2)
    for update, gradient in enumerate(np.array([[0.3, -1.0], [0.1, 2.0], [1e-9, 0.0]]), start=1):
        optimizer.apply([keras.ops.convert_to_tensor(gradient.astype("float32"))], [weight])
        rate = 0.5 * 16**-0.5 * min(update**-0.5, update * 4**-1.5)
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.98 * square + 0.02 * gradient**2
        corrected = mean / (1 - 0.9**update), square / (1 - 0.98**update)
        expected = expected - rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-9)
        np.testing.assert_allclose(keras.ops.convert_to_numpy(weight), expected, rtol=1e-5)


def test_the_paper_s_values():
    config = transformer_adam(512).get_config()
    assert (config["beta_1"], config["beta_2"], config["epsilon"]) == (0.9, 0.98, 1e-9)
    schedule = config["learning_rate"]["config"]
    assert schedule == {"hidden_dim": 512, "warmup_steps": 4000, "scale": 1.0}


def test_overrides_reach_adam():
    optimizer = transformer_adam(512, beta_2=0.997, clipnorm=1.0)
    assert optimizer.beta_2 == 0.997
    assert optimizer.clipnorm == 1.0
    assert optimizer.beta_1 == 0.9


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (transformer_adam, {"hidden_dim": 512, "momentum": 0.9}, "momentum"),
        (transformer_optimizer, {"hidden_dim": 8, "optimizer": "sgd"}, "`optimizer` must be one"),
        (AdamWithGradientNorm, {"cooldown": 1.0}, r"`cooldown` must be a number in \[0, 1\)"),
        (AdamWithGradientNorm, {"gradient_accumulation_steps": 2}, "_steps` must be None"),
        (Muon, {"momentum": 1.0}, r"`momentum` must be a number in \[0, 1\)"),
        (Muon, {"rms_rate": 0.0}, "`rms_rate` must be a finite number > 0"),
    ],
)
def test_wrong_arguments_are_named(make, options, message):
    with pytest.raises(ValueError, match=message):
        make(**options)

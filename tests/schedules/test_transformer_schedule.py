"""The learning rate against its closed form."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.schedules import TransformerSchedule


def rate(schedule, step):
    return float(ops.convert_to_numpy(schedule(step)))


@pytest.mark.parametrize(
    ("update", "expected"),
    [
        (1, 1.746928e-07),  # 512^-0.5 * 4000^-1.5
        (2, 3.493856e-07),
        (4_000, 6.987712e-04),  # the peak: 512^-0.5 * 4000^-0.5
        (16_000, 3.493856e-04),  # four times the peak's step halves it
        (100_000, 1.397542e-04),
    ],
)
def test_the_base_model(update, expected):
    assert rate(TransformerSchedule(512), update - 1) == pytest.approx(expected, rel=1e-6)


def test_the_peak_is_at_the_last_step_of_the_warm_up():
    rates = [rate(TransformerSchedule(64, warmup_steps=10), step) for step in range(30)]
    assert int(np.argmax(rates)) + 1 == 10
    assert max(rates) == pytest.approx((64 * 10) ** -0.5, rel=1e-6)


def test_scale_multiplies_the_whole_curve():
    for step in (0, 3999, 50_000):
        scaled = rate(TransformerSchedule(512, scale=2.53), step)
        assert scaled == pytest.approx(2.53 * rate(TransformerSchedule(512), step), rel=1e-6)


def test_float32_from_integer_steps_under_a_half_precision_policy():
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        value = TransformerSchedule(512)(ops.convert_to_tensor(3999, dtype="int32"))
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
        assert float(value) == pytest.approx(6.987712e-04, rel=1e-6)
    finally:
        keras.config.set_dtype_policy("float32")


def test_config_round_trip():
    schedule = TransformerSchedule(128, warmup_steps=30, scale=0.5)
    again = keras.optimizers.schedules.deserialize(keras.optimizers.schedules.serialize(schedule))
    assert isinstance(again, TransformerSchedule)
    assert again.get_config() == {"hidden_dim": 128, "warmup_steps": 30, "scale": 0.5}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"hidden_dim": 0}, "`hidden_dim` must be a positive integer. Received: hidden_dim=0"),
        ({"hidden_dim": 8, "warmup_steps": 0}, "`warmup_steps` must be a positive integer"),
        ({"hidden_dim": 8, "scale": 0}, "`scale` must be a finite number > 0. Received: scale=0"),
    ],
)
def test_wrong_values_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TransformerSchedule(**arguments)

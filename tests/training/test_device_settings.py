"""Settings of the devices: parts that a step is computed in, shapes that it may have."""

import dataclasses

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.settings import setting
from keras_transformer.training.device_settings import DeviceSettings


@dataclasses.dataclass(frozen=True)
class Training(DeviceSettings):
    batch_tokens: int = setting(25_000, "the paper's")


def test_parts_of_a_step_follow_from_what_a_device_can_hold():
    assert Training().micro_batches(replicas=8) == 1
    assert Training(accumulate=3).micro_batches(replicas=8) == 3
    small_device = Training(device_tokens=4000)
    assert small_device.micro_batches(replicas=1) == 7  # 25,000 / 7 = 3,571
    assert small_device.micro_batches(replicas=4) == 2  # 25,000 / 8 = 3,125
    assert small_device.micro_batches(replicas=8) == 1


def test_given_and_computed_parts_exclude_each_other():
    with pytest.raises(UserInputError, match="accumulate=2, device_tokens=4000"):
        Training(accumulate=2, device_tokens=4000)


def test_tensorflow_does_not_compile_deterministic_operations():
    with pytest.raises(UserInputError, match="xla=True, deterministic=True"):
        Training(xla=True, deterministic=True)


def test_compiled_steps_have_few_shapes():
    assert Training().shapes("tensorflow") is None
    assert Training().shapes("jax") == 16
    assert Training(xla=True).shapes("tensorflow") == 16


def test_tensorflow_compiles_on_demand_and_jax_always():
    assert [Training().jit_compile(backend) for backend in ("tensorflow", "jax")] == [False, True]
    assert Training(xla=True).jit_compile("tensorflow")

"""The precision of `auto`: what the devices have hardware for."""

import keras
import pytest

from keras_transformer import models
from keras_transformer.training import TrainingSettings
from keras_transformer.training.devices import device_start

pytestmark = pytest.mark.core


def automatic(monkeypatch, devices, flags=(), capabilities=()):
    """The dtype of a model's layers on a machine with these devices."""
    monkeypatch.setattr(keras.distribution, "list_devices", lambda: devices)
    monkeypatch.setattr(device_start, "processor_flags", lambda: list(flags))
    for name in ("_tensorflow_gpus", "_jax_gpus"):
        monkeypatch.setattr(device_start, name, lambda: list(capabilities))
    return TrainingSettings().model_options()["dtype"]


@pytest.mark.tensorflow
def test_a_cpu_with_amx_trains_in_bfloat16(monkeypatch):
    assert automatic(monkeypatch, ["cpu:0"], ["avx2", "amx_bf16"]) == "mixed_bfloat16"
    assert automatic(monkeypatch, ["cpu:0"], ["avx512_bf16"]) == "float32"


def test_gpus_from_ampere_on_and_tpus_do(monkeypatch):
    assert automatic(monkeypatch, ["gpu:0"], capabilities=[(8, 0)]) == "mixed_bfloat16"
    assert automatic(monkeypatch, ["cuda:0", "cuda:1"], capabilities=[(9, 0), (7, 5)]) == "float32"
    assert automatic(monkeypatch, ["gpu:0"], ["amx_bf16"], [(7, 0)]) == "float32"
    assert automatic(monkeypatch, ["tpu:0"]) == "mixed_bfloat16"
    assert automatic(monkeypatch, ["cpu:0"]) == "float32"


def test_what_is_given_outranks_the_devices(monkeypatch):
    monkeypatch.setattr(device_start, "processor_flags", lambda: ["amx_bf16"])
    options = TrainingSettings(num_layers=1, precision="float32").model_options()
    model = models.build_transformer("tiny", vocabulary_size=9, **options)
    assert model.get_layer("decoder_layer_1").dtype_policy.name == "float32"


def test_the_machine_itself_is_asked():
    assert device_start.fastest_precision() in ("float32", "mixed_bfloat16")
    assert isinstance(device_start.processor_flags(), list)

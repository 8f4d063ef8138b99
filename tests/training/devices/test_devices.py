"""The devices that a training gets, on both backends."""

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.training import Devices, start_devices
from keras_transformer.training.devices.devices import MachineWatch, check_gpu_count, check_one_cpu

# What `start_devices` gives, the first time, again and too late.
PROGRAM = """
import json
from keras_transformer.installation import start_backend_quietly
start_backend_quietly(devices=False)
import keras
from keras_transformer.training import start_devices
from keras_transformer.training.devices.device_start import compiles_by_default

compiles_by_default()  # as the settings of a training do first

def started(replicas):
    devices = start_devices(replicas)
    with devices.scope():
        variable = keras.Variable([1.0, 2.0])
    devices.stop()
    copies = getattr(variable.value, "values", [0]) if TF else variable.value.devices()
    return [devices.description, devices.replicas, devices.is_chief, len(copies)]

TF = keras.backend.backend() == "tensorflow"
results = [started(replicas) for replicas in (2, None, 1)]
try:
    started(3)
except RuntimeError as error:
    results.append(str(error))
print(json.dumps(results))
"""


@pytest.mark.tensorflow  # once, not again in the run of JAX
@pytest.mark.parametrize("backend", ["tensorflow", "jax"])
def test_a_process_starts_its_devices_once(backend):
    environment = {
        **{name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"},
        "KERAS_BACKEND": backend,
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert (done.returncode, done.stderr) == (0, "")
    two, default, one, too_late = json.loads(done.stdout)
    assert two == ["2 x CPU", 2, True, 2]
    assert default == one == ["1 x CPU", 1, True, 1]
    assert "start_devices(replicas=3)` must be called before anything is computed" in too_late


def test_one_device_does_nothing_together():
    devices = Devices("CPU")
    assert devices.largest(7) == 7
    with devices.scope(), devices.watch():
        pass
    devices.stop()


def test_several_machines_are_described():
    devices = Devices("NVIDIA H200", replicas=16, processes=2, process=1)
    assert devices.description == "16 x NVIDIA H200 of 2 machines"
    assert not devices.is_chief


@pytest.mark.parametrize("replicas", [0, -1, 1.5, "2"])
def test_replicas_are_counted_from_one(replicas):
    with pytest.raises(ValueError, match="`replicas` must be"):
        start_devices(replicas)


def test_more_replicas_than_gpus_are_refused():
    check_gpu_count(None, 2)
    check_gpu_count(2, 2)
    with pytest.raises(UserInputError, match="this machine's GPUs, 2. Received: replicas=3"):
        check_gpu_count(3, 2)


def test_machines_without_gpu_have_one_device():
    check_one_cpu(None)
    check_one_cpu(1)
    with pytest.raises(UserInputError, match="start more processes. Received: replicas=2"):
        check_one_cpu(2)


def test_a_lost_machine_is_told_with_the_last_state():
    checkpoints = types.SimpleNamespace(states=lambda: ["step-1", "step-2"])
    run = types.SimpleNamespace(checkpoints=checkpoints)
    message = MachineWatch(None, run).message()
    assert message == (
        "Lost contact with another machine. The last checkpoint is step-2. "
        "Start all machines again with --resume."
    )


@pytest.mark.tensorflow
def test_each_gpu_of_a_machine_gets_its_rows(monkeypatch):
    from keras_transformer.training.devices.tensorflow_devices import TensorFlowMachines

    class Strategy:
        """As much of a strategy of two machines with two GPUs each as is asked for batches."""

        num_replicas_in_sync = 4

        def distribute_datasets_from_function(self, read):
            return read(None)

    class Reader:
        """A batch of 6 rows, filled up to 8; row i holds the number i."""

        links = None

        def batch(self, step, row_multiple):
            rows = np.arange(-(-6 // row_multiple) * row_multiple, dtype="int32")
            ids = np.repeat(rows[:, None], 3, axis=1) + 100 * step
            return {"source_ids": ids, "target_ids": ids}, ids, ids.astype("float32")

    def rows_of(process):
        task = {"type": "worker", "index": process}
        cluster = {"worker": ["a:1", "b:1"]}
        monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": task}))
        devices = TensorFlowMachines("GPU", Strategy())
        assert (devices.process, devices.processes, devices.replicas) == (process, 2, 4)
        return [
            labels[:, 0].tolist()
            for _, labels, _ in devices.batches(Reader(), start_step=1).take(4).as_numpy_iterator()
        ]

    assert rows_of(0) == [[100, 101], [102, 103], [200, 201], [202, 203]]
    assert rows_of(1) == [[104, 105], [106, 107], [204, 205], [206, 207]]

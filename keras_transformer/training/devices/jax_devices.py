"""Devices of a training on JAX: `keras.distribution.DataParallel`, on one machine or several."""

import os

import jax
import keras
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.training.devices.device_count import (
    check_gpu_count,
    one_start_only,
    started_too_late,
)
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.devices.machine_watch import MachineWatch

ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
PROCESSES = "KERAS_DISTRIBUTION_NUM_PROCESSES"
PROCESS = "KERAS_DISTRIBUTION_PROCESS_ID"
# How many processes Slurm's `srun` and Open MPI's `mpirun` have started; JAX asks them the rest.
LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
HEARTBEAT_SECONDS = 30  # without a sign of life a machine is given up; JAX waits for 100


class JaxReplicas(Devices):
    """Several devices of one process or of several, under `keras.distribution.DataParallel`.

    The distribution holds for the whole process, as Keras reads it in `fit`, until `stop`. The
    `jax.Device`s are those of all processes, in the order of their rows.
    """

    def __init__(self, device_name, devices):
        super().__init__(device_name, len(devices), jax.process_count(), jax.process_index())
        keras.distribution.set_distribution(
            keras.distribution.DataParallel(
                devices=[f"{device.platform}:{device.id}" for device in devices],
                auto_shard_dataset=False,  # every process reads its own rows
            )
        )

    def largest(self, number):
        """As `Devices.largest`."""
        if self.processes == 1:
            return number
        from jax.experimental import multihost_utils

        return int(np.max(multihost_utils.process_allgather(np.int32(number))))

    def watch(self, run=None):
        """As `Devices.watch`."""
        return MachineWatch(is_lost, run) if self.processes > 1 else super().watch(run)

    def stop(self):
        """As `Devices.stop`: waits for the other processes, which have to call it too."""
        keras.distribution.set_distribution(None)
        if self.processes > 1:
            jax.distributed.shutdown()


def start(replicas):
    """As `start_devices`, on JAX."""
    too_late = not _divide_cpu(replicas or 1)
    if is_one_of_several():
        _join()
    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        device_name, replicas = "CPU", replicas or 1
        if too_late and len(devices) < replicas:
            raise started_too_late(replicas)
    else:
        check_gpu_count(replicas, len(devices))
        device_name, replicas = devices[0].device_kind, replicas or len(devices)
    if replicas == 1 and jax.process_count() == 1:
        keras.distribution.set_distribution(None)
        return Devices(device_name)
    return JaxReplicas(device_name, _of_each_process(replicas))


def is_one_of_several():
    """Whether the environment says that several processes belong together."""
    if ADDRESSES in os.environ:
        return _number(PROCESSES) > 1
    return any(_number(name) > 1 for name in LAUNCHERS if name in os.environ)


def is_lost(error):
    """Whether an error says that another machine does not answer."""
    signs = ("Gloo", "coordination service", "heartbeat", "NCCL", "Connection reset")
    return isinstance(error, (RuntimeError, ValueError)) and any(
        sign in str(error) for sign in signs
    )


def _join():
    """Join the other processes; waits for them."""
    address = {}
    if ADDRESSES in os.environ:
        processes, process = _number(PROCESSES), _number(PROCESS)
        if process >= processes:
            raise UserInputError(
                f"{PROCESS} must be smaller than {PROCESSES}, {processes}. Received: {process}"
            )
        address = {
            "coordinator_address": os.environ[ADDRESSES].split(",")[0],
            "num_processes": processes,
            "process_id": process,
        }
    # It would take SIGTERM for itself.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(**address, heartbeat_timeout_seconds=HEARTBEAT_SECONDS)
    except RuntimeError as error:
        if jax.distributed.is_initialized() or "before" in str(error):
            raise one_start_only() from error
        raise UserInputError(f"The machines could not join: {error}") from error


def _of_each_process(count):
    """The first `count` devices of each process, in the order of the processes."""
    by_process = [[] for _ in range(jax.process_count())]
    for device in jax.devices():
        by_process[device.process_index].append(device)
    return [device for devices in by_process for device in devices[:count]]


def _number(name):
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise UserInputError(f"{name} must be a number of processes. Received: {text!r}")
    return int(text)


def _divide_cpu(count):
    """Divide the CPU into `count` devices; returns False if JAX has started before."""
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        return False
    return True

"""Training devices on JAX, using `keras.distribution.DataParallel` on one or more machines."""

import os
from collections.abc import Sequence

import jax
import keras
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.training.devices.devices import (
    Devices,
    check_gpu_count,
    one_start_only,
    started_too_late,
)

ADDRESSES = "KERAS_DISTRIBUTION_JOB_ADDRESSES"
PROCESSES = "KERAS_DISTRIBUTION_NUM_PROCESSES"
PROCESS = "KERAS_DISTRIBUTION_PROCESS_ID"
# Number of processes started by Slurm's `srun` or Open MPI's `mpirun`. JAX detects the rest.
LAUNCHERS = ("SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE")
HEARTBEAT_SECONDS = 30  # timeout for a silent machine; JAX's default is 100


class JaxReplicas(Devices):
    """Several devices of one or more processes, under `keras.distribution.DataParallel`.

    The distribution is set globally for the process until `stop`, because `fit` uses the global
    value. `devices` lists the devices of all processes in row order.
    """

    def __init__(self, device_name: str, devices: Sequence[jax.Device]) -> None:
        super().__init__(device_name, len(devices), jax.process_count(), jax.process_index())
        keras.distribution.set_distribution(
            keras.distribution.DataParallel(
                devices=[f"{device.platform}:{device.id}" for device in devices],
                auto_shard_dataset=False,  # each process reads its own rows
            )
        )

    def largest(self, number: int) -> int:
        if self.processes == 1:
            return number
        from jax.experimental import multihost_utils

        return int(np.max(multihost_utils.process_allgather(np.int32(number))))

    @staticmethod
    def _is_lost(error: BaseException) -> bool:
        signs = ("Gloo", "coordination service", "heartbeat", "NCCL", "Connection reset")
        return isinstance(error, (RuntimeError, ValueError)) and any(
            sign in str(error) for sign in signs
        )

    def stop(self) -> None:
        """Do the same as `Devices.stop`, but wait for all processes, which must also call this."""
        keras.distribution.set_distribution(None)
        if self.processes > 1:
            jax.distributed.shutdown()


def start(replicas: int | None) -> Devices:
    """Implement `start_devices` on JAX."""
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


def is_one_of_several() -> bool:
    """Whether the environment configures training with several processes."""
    if ADDRESSES in os.environ:
        return _number(PROCESSES) > 1
    return any(_number(name) > 1 for name in LAUNCHERS if name in os.environ)


def _join() -> None:
    """Wait for the other processes and join them."""
    coordinator, processes, process, detection = None, None, None, None
    if ADDRESSES in os.environ:
        processes, process = _number(PROCESSES), _number(PROCESS)
        if process >= processes:
            raise UserInputError(
                f"{PROCESS} must be smaller than {PROCESSES}, {processes}. Received: {process}"
            )
        coordinator = os.environ[ADDRESSES].split(",")[0]
        detection = "deactivate"  # the scheduler is not needed
    # Otherwise, the service would handle SIGTERM.
    jax.config.update("jax_enable_preemption_service", False)
    try:
        jax.distributed.initialize(
            coordinator,
            processes,
            process,
            cluster_detection_method=detection,
            heartbeat_timeout_seconds=HEARTBEAT_SECONDS,
        )
    except RuntimeError as error:
        if jax.distributed.is_initialized() or "before" in str(error):
            raise one_start_only() from error
        raise UserInputError(f"The machines could not join: {error}") from error


def _of_each_process(count: int) -> list[jax.Device]:
    """Return the first `count` devices of each process, in process order."""
    by_process: list[list[jax.Device]] = [[] for _ in range(jax.process_count())]
    for device in jax.devices():
        by_process[device.process_index].append(device)
    return [device for devices in by_process for device in devices[:count]]


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    if not text.isdecimal():
        raise UserInputError(f"{name} must be a number of processes. Received: {text!r}")
    return int(text)


def _divide_cpu(count: int) -> bool:
    """Divide the CPU into `count` devices. Return False if JAX has already started."""
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        return False
    return True

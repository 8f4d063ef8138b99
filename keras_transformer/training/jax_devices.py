"""Devices of a training on JAX: `keras.distribution.DataParallel`."""

import jax
import keras

from keras_transformer.training.device_count import check_gpu_count, started_too_late
from keras_transformer.training.devices import Devices


class JaxReplicas(Devices):
    """Several devices of one process or of several, under `keras.distribution.DataParallel`.

    The distribution holds for the whole process, as Keras reads it in `fit`, until `stop`.

    Args:
        device_name: kind of one device.
        devices: list of `jax.Device`, of all processes, in the order of their rows.
    """

    def __init__(self, device_name, devices):
        super().__init__(device_name, len(devices), jax.process_count(), jax.process_index())
        keras.distribution.set_distribution(
            keras.distribution.DataParallel(
                devices=[f"{device.platform}:{device.id}" for device in devices],
                auto_shard_dataset=False,  # every process reads its own rows
            )
        )

    def stop(self):
        """Let Keras put what it makes from now on onto one device."""
        keras.distribution.set_distribution(None)


def start_jax_devices(replicas):
    """As `start_devices`, on JAX."""
    too_late = not _divide_cpu(replicas or 1)
    devices = jax.local_devices()
    if devices[0].platform == "cpu":
        device_name, replicas = "CPU", replicas or 1
        if too_late and len(devices) < replicas:
            raise started_too_late(replicas)
    else:
        check_gpu_count(replicas, len(devices))
        device_name, replicas = devices[0].device_kind, replicas or len(devices)
    if replicas == 1:
        keras.distribution.set_distribution(None)
        return Devices(device_name)
    return JaxReplicas(device_name, devices[:replicas])


def _divide_cpu(count):
    """Divide the CPU into `count` devices; returns False if JAX has started before."""
    try:
        jax.config.update("jax_num_cpu_devices", count)
    except RuntimeError:
        return False
    return True

"""Devices of a training on TensorFlow: `tf.distribute` strategies."""

from contextlib import AbstractContextManager

import tensorflow as tf

from keras_transformer.training.devices.devices import Devices, check_gpu_count, started_too_late
from keras_transformer.training.devices.tensorflow_multi_worker import (
    TensorFlowMachines,
    is_one_of_several,
    start_machines,
)

__all__ = ["TensorFlowReplicas", "is_one_of_several", "start"]


class TensorFlowReplicas(Devices):
    """Several devices of one process, under a `MirroredStrategy`."""

    def __init__(self, device_name: str, strategy: tf.distribute.Strategy) -> None:
        super().__init__(device_name, strategy.num_replicas_in_sync)
        self.strategy = strategy

    def scope(self) -> AbstractContextManager[tf.distribute.Strategy]:
        """Return the strategy's scope."""
        return self.strategy.scope()


def start(replicas: int | None) -> Devices:
    """`start_devices` on TensorFlow."""
    gpus = tf.config.list_physical_devices("GPU")
    device_name = _kind(gpus[0]) if gpus else "CPU"
    if gpus:
        check_gpu_count(replicas, len(gpus))
    if is_one_of_several():
        return TensorFlowMachines(device_name, start_machines(replicas))
    if gpus:
        replicas = replicas or len(gpus)
        logical_devices = tf.config.list_logical_devices("GPU")
        # Gradients travel between GPUs by NCCL.
        cross_device_ops = tf.distribute.NcclAllReduce()
    else:
        replicas = replicas or 1
        logical_devices = _logical_cpus(replicas)
        # Collective operations keep the shapes of the first model that a process trains.
        cross_device_ops = tf.distribute.HierarchicalCopyAllReduce()
    if replicas == 1:
        return Devices(device_name)
    names = [device.name for device in logical_devices[:replicas]]
    return TensorFlowReplicas(device_name, tf.distribute.MirroredStrategy(names, cross_device_ops))


def _kind(gpu: tf.config.PhysicalDevice) -> str:
    """The kind of a physical GPU, such as "NVIDIA H200"."""
    return tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")


def _logical_cpus(count: int) -> list[tf.config.LogicalDevice]:
    """Divide the CPU into `count` logical devices, unless that is done already."""
    cpu = tf.config.list_physical_devices("CPU")[0]
    if count > 1:
        try:
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * count
            )
        except RuntimeError:  # TensorFlow has started
            if len(tf.config.list_logical_devices("CPU")) < count:
                raise started_too_late(count) from None
    return tf.config.list_logical_devices("CPU")

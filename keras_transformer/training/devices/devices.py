"""The devices of a training: one, all GPUs of a machine, or those of several machines."""

import contextlib
from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import TypeAlias

from keras_transformer.data import BatchReader, fit_batches
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import Tensor

# Inputs, labels and weights, as `data.BatchReader.batch` returns them: what `fit` takes.
Batches: TypeAlias = Iterable[tuple[dict[str, Tensor], Tensor, Tensor]]


class Devices:
    """The devices that a training runs on. This class is a single device of one process.

    `start_devices` returns it, or a subclass for several devices or processes.

    Args:
        device_name: kind of one device, such as "NVIDIA H200" or "CPU".
        replicas: number of devices of all processes; each holds a copy of the model.
        processes: number of processes, one per machine, that train the model together.
        process: number of this process, from 0.

    Example:
        >>> devices = Devices("CPU")
        >>> devices.replicas, devices.is_chief, devices.description
        (1, True, '1 x CPU')
    """

    def __init__(
        self, device_name: str, replicas: int = 1, processes: int = 1, process: int = 0
    ) -> None:
        self.device_name = device_name
        self.replicas = replicas
        self.processes = processes
        self.process = process

    @property
    def is_chief(self) -> bool:
        """Whether this process is the one that writes files and shows progress."""
        return self.process == 0

    @property
    def description(self) -> str:
        """The devices in words, such as "8 x NVIDIA H200" or "4 x CPU of 2 machines"."""
        machines = f" of {self.processes} machines" if self.processes > 1 else ""
        return f"{self.replicas} x {self.device_name}{machines}"

    def scope(self) -> AbstractContextManager[object]:
        """Return the context in which to build and compile the model."""
        return contextlib.nullcontext()

    def batches(self, reader: BatchReader, start_step: int = 0, accumulate: int = 1) -> Batches:
        """Endless batches for `fit` and `evaluate`, each for all devices together.

        Empty rows pad a batch until it divides into `accumulate` equal slices for every device.
        Of a batch for several processes this one gets its own rows.

        Args:
            reader: reads the batches.
            start_step: global step of the first batch, from 0.
            accumulate: slices that each device computes one after another.

        Returns:
            Batches as `fit` takes them: a `tf.data.Dataset` on TensorFlow, a generator on JAX.
        """
        return fit_batches(
            reader,
            start_step,
            row_multiple=self.replicas * accumulate,
            shard=(self.process, self.processes),
        )

    def largest(self, number: int) -> int:
        """Maximum over all processes (collective) of an integer >= 0.

        It shares what a single process sees, such as its clock or Ctrl-C, so that all stop.
        """
        return number

    def watch(self, run: RunDirectory | None = None) -> AbstractContextManager[object]:
        """Return a context that notices the loss of another machine.

        Keep it open until this process is done, work of the chief alone included. With a single
        process it does nothing.

        Args:
            run: the run whose last checkpoint the error names.

        Raises:
            WorkerLost: on leaving the context.
        """
        return contextlib.nullcontext()

    def stop(self) -> None:
        """End the joint work. This process can continue alone, with models that it then loads."""

"""Training devices: a single device, all GPUs of a machine, or several machines."""

import atexit
import contextlib
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, NoReturn, Self, TypeAlias

import keras

from keras_transformer.data import BatchReader, fit_batches
from keras_transformer.errors import USER_ERROR, UserInputError, WorkerLost, refuse
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import Tensor

# Inputs, labels and weights, as returned by `data.BatchReader.batch` and accepted by `fit`.
Batches: TypeAlias = Iterable[tuple[dict[str, Tensor], Tensor, Tensor]]
_begun: list["MachineWatch"] = []  # open watches of this process, outermost first


class Devices:
    """The devices for training. This class represents a single device in one process.

    `start_devices` returns an instance, or a subclass for several devices or processes.

    Args:
        device_name: device type, such as "NVIDIA H200" or "CPU".
        replicas: number of devices in all processes. Each device has a copy of the model.
        processes: number of processes that train the model together, one per machine.
        process: zero-based number of this process.

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
        """Whether this is the process that writes files and shows progress."""
        return self.process == 0

    @property
    def description(self) -> str:
        """A description of the devices, such as "8 x NVIDIA H200" or "4 x CPU of 2 machines"."""
        machines = f" of {self.processes} machines" if self.processes > 1 else ""
        return f"{self.replicas} x {self.device_name}{machines}"

    def scope(self) -> AbstractContextManager[object]:
        """Return the context in which to build and compile the model."""
        return contextlib.nullcontext()

    def batches(self, reader: BatchReader, start_step: int = 0, accumulate: int = 1) -> Batches:
        """Return an endless stream of batches for `fit` and `evaluate`, each shared by all devices.

        A batch is padded with empty rows until it can be divided into `accumulate` equal slices for
        each device. With several processes, each process receives its own rows of a batch.

        Args:
            reader: reads the batches.
            start_step: zero-based global step of the first batch.
            accumulate: number of slices that each device processes sequentially.

        Returns:
            Batches for `fit`: a `tf.data.Dataset` on TensorFlow, or a generator on JAX.
        """
        return fit_batches(
            reader,
            start_step,
            row_multiple=self.replicas * accumulate,
            shard=(self.process, self.processes),
        )

    def largest(self, number: int) -> int:
        """Return the maximum of a nonnegative integer over all processes, which must all call this.

        This shares events that only one process sees, such as a time limit or Ctrl-C, so all stop.
        """
        return number

    def watch(self, run: RunDirectory | None = None) -> AbstractContextManager[object]:
        """Return a context manager that detects the loss of another machine.

        Keep the context open until this process has finished, including work that only the chief
        does. With a single process, the context does nothing.

        Args:
            run: run whose last checkpoint is named in the error.

        Raises:
            WorkerLost: on exiting the context.
        """
        return contextlib.nullcontext() if self.processes == 1 else MachineWatch(self._is_lost, run)

    @staticmethod
    def _is_lost(error: BaseException) -> bool:
        """Whether an error means that another machine has stopped responding."""
        return False

    def stop(self) -> None:
        """Leave the group. This process can then continue on its own, with newly loaded models."""


def check_gpu_count(replicas: int | None, gpus: int) -> None:
    """Raise `UserInputError` if there are fewer GPUs than replicas."""
    if replicas is not None and replicas > gpus:
        refuse("replicas", f"be at most the number of this machine's GPUs, {gpus}", replicas)


def started_too_late(replicas: int) -> RuntimeError:
    """Return the error for a CPU that can no longer be divided into devices."""
    return RuntimeError(
        f"`start_devices(replicas={replicas})` must be called before anything is computed: "
        "the backend has started already, with fewer devices"
    )


def check_one_cpu(replicas: int | None) -> None:
    """Raise `UserInputError` for several replicas per machine on several machines without GPUs."""
    if replicas is not None and replicas > 1:
        refuse("replicas", "be 1 on several machines without GPUs: start more processes", replicas)


def one_start_only() -> RuntimeError:
    """Return the error for machines that can no longer join a group."""
    return RuntimeError(
        "`start_devices()` must be called before anything is computed, and only once, if several "
        "machines train together"
    )


def peak_device_memory() -> int | None:
    """Return the highest peak memory use of a device of this process in bytes; None if unknown."""
    peaks = _jax_peaks() if keras.backend.backend() == "jax" else _tensorflow_peaks()
    return max(peaks, default=None)


def _jax_peaks() -> list[int]:
    import jax

    accounts = [device.memory_stats() or {} for device in jax.local_devices()]
    return [account["peak_bytes_in_use"] for account in accounts if "peak_bytes_in_use" in account]


def _tensorflow_peaks() -> list[int]:
    import tensorflow as tf

    devices = tf.config.list_logical_devices("GPU")
    return [tf.config.experimental.get_memory_info(device.name)["peak"] for device in devices]


class MachineWatch:
    """A context manager that raises `WorkerLost` when another machine is lost.

    The backend raises an error in the step that waits for the lost machine. The user sees a
    one-line message from this package, printed after any output from native code. When the process
    exits, it does not wait for lost machines. If the step hangs instead, the backend ends the
    process with its own message when heartbeats stop. A nested watch only converts errors.
    `is_lost` determines whether an exception means that a machine is lost.
    """

    def __init__(
        self, is_lost: Callable[[BaseException], bool], run: RunDirectory | None = None
    ) -> None:
        self._is_lost = is_lost
        self._run = run

    def __enter__(self) -> Self:
        _begun.append(self)
        return self

    def __exit__(self, kind: Any, exception: BaseException | None, traceback: Any) -> None:
        _begun.remove(self)
        if not isinstance(exception, Exception):
            return  # Ctrl-C ends training on all machines after the same step
        lost = self._is_lost(exception)
        if not _begun:
            # Do not wait for other machines, which are gone or are waiting for this process.
            is_expected = lost or isinstance(exception, UserInputError)
            atexit.register(self._end_process, USER_ERROR if is_expected else 1)
        if lost:
            raise WorkerLost(self.message()) from exception

    def message(self) -> str:
        """Return the error message, with instructions for continuing."""
        states = self._run.checkpoints.states() if self._run else []
        last = f"The last checkpoint is {states[-1]}. " if states else ""
        return f"Lost contact with another machine. {last}Start all machines again with --resume."

    def _end_process(self, code: int) -> NoReturn:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)

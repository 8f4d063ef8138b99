"""The devices of a training: one, all GPUs of a machine, or those of several machines."""

import contextlib

from keras_transformer.data import fit_batches


class Devices:
    """The devices that a training runs on, this one: a single device of this process.

    `start_devices` makes it, or a subclass where there are several devices or processes.

    Args:
        device_name: kind of one device, such as "NVIDIA H200" or "CPU".
        replicas: number of devices of all processes; each holds a copy of the model.
        processes: number of processes, one a machine, that train the model together.
        process: number of this process, from 0.

    Example:
        >>> devices = Devices("CPU")
        >>> devices.replicas, devices.is_chief, devices.description
        (1, True, '1 x CPU')
    """

    def __init__(self, device_name, replicas=1, processes=1, process=0):
        self.device_name = device_name
        self.replicas = replicas
        self.processes = processes
        self.process = process

    @property
    def is_chief(self):
        """Whether this process is the one that writes files and shows progress."""
        return self.process == 0

    @property
    def description(self):
        """The devices in words, such as "8 x NVIDIA H200" or "4 x CPU of 2 machines"."""
        machines = f" of {self.processes} machines" if self.processes > 1 else ""
        return f"{self.replicas} x {self.device_name}{machines}"

    def scope(self):
        """Return the context in which the model is built and compiled."""
        return contextlib.nullcontext()

    def batches(self, reader, start_step=0, accumulate=1):
        """Endless batches for `fit` and `evaluate`, each for all devices together.

        Empty rows fill a batch up until every device gets as many rows, in `accumulate` equal
        slices. Of a batch for several processes this one gets its own rows.

        Args:
            reader: a `BatchReader`.
            start_step: global step of the first batch, from 0.
            accumulate: slices that each device works off one after the other.

        Returns:
            What `fit` takes.
        """
        return fit_batches(
            reader,
            start_step,
            row_multiple=self.replicas * accumulate,
            shard=(self.process, self.processes),
        )

    def largest(self, number):
        """The largest of the integers that the processes bring, all of which must call this.

        What one process alone sees, such as its clock or Ctrl-C, ends a training for all by it.

        Args:
            number: integer >= 0.
        """
        return number

    def watch(self, run=None):
        """Return a context for all the work together, which ends where another machine has gone.

        It lasts until the process has done all, also what the chief does alone. It does nothing
        where there is one process.

        Args:
            run: the `RunDirectory`, whose last checkpoint is named, or None.

        Raises:
            WorkerLost: on leaving the context.
        """
        return contextlib.nullcontext()

    def stop(self):
        """End the work together. This process can go on alone, with models that it then loads."""

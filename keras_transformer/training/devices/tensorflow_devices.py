"""Training on several devices and machines with TensorFlow, and Slurm tasks."""

import itertools
import json
import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import keras
import tensorflow as tf

from keras_transformer.data import BatchReader
from keras_transformer.errors import UserInputError
from keras_transformer.training.devices.devices import (
    Batches,
    Devices,
    check_gpu_count,
    check_one_cpu,
    one_start_only,
    started_too_late,
)

NUM_TASKS = "SLURM_STEP_NUM_TASKS"
NODES = "SLURM_STEP_NODELIST"
TASKS_PER_NODE = "SLURM_STEP_TASKS_PER_NODE"
TASK = "SLURM_PROCID"
NODE = "SLURM_NODEID"
JOB = "SLURM_JOB_ID"
PORT = "KERAS_TRANSFORMER_PORT"

# Task ports, unless PORT sets the first port. They are above the ports that Linux uses for outgoing
# connections, with 16 consecutive ports per job, so two jobs can share a node.
_FIRST_PORT, _LAST_PORT, _PORTS_OF_A_JOB = 61440, 65535, 16


def slurm_tasks() -> tuple[list[str], int]:
    """Return the addresses of all tasks in this `srun`, and the number of this task.

    The list is empty if `srun` started at most one task, as in an `salloc` shell. Tasks must be in
    node order, as started by `srun --distribution=block`: task 0 is the first task on the first
    node. The tasks on a node listen on consecutive ports.

    Raises:
        UserInputError: the variables do not describe a group of tasks.

    Reference: https://slurm.schedmd.com/srun.html#SECTION_OUTPUT-ENVIRONMENT-VARIABLES
    """
    if os.environ.get(NUM_TASKS, "1") == "1":
        return [], 0
    try:
        nodes = expand_nodes(os.environ[NODES])
        counts = expand_counts(os.environ[TASKS_PER_NODE])
        places = [
            (node, place)
            for node, count in zip(range(len(nodes)), counts, strict=True)
            for place in range(count)
        ]
        task = int(os.environ[TASK])
        node, _ = places[task]
        if len(places) != int(os.environ[NUM_TASKS]) or node != int(os.environ.get(NODE, node)):
            raise ValueError
    except (KeyError, ValueError, IndexError) as error:
        names = (NUM_TASKS, NODES, TASKS_PER_NODE, TASK, NODE)
        received = ", ".join(f"{name}={os.environ.get(name)}" for name in names)
        raise UserInputError(
            "The variables of Slurm must describe tasks in the order of their nodes, as `srun "
            f"--distribution=block` starts them. Received: {received}"
        ) from error
    port = _first_port(max(counts))
    return [f"{nodes[node]}:{port + place}" for node, place in places], task


def expand_nodes(text: str) -> list[str]:
    """Expand a Slurm node list into node names, in list order.

    Example:
        >>> expand_nodes("node[01-03,07],gpu1")
        ['node01', 'node02', 'node03', 'node07', 'gpu1']
    """
    entries = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if ",".join(entries) != text:
        raise ValueError(f"not a list of nodes: {text}")
    return [node for entry in entries for node in _expand(entry)]


def expand_counts(text: str) -> list[int]:
    """Expand a Slurm task list into the number of tasks per node.

    Example:
        >>> expand_counts("2(x3),1")
        [2, 2, 2, 1]
    """
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if match is None:
            raise ValueError(f"not a list of tasks per node: {text}")
        counts += [int(match[1])] * int(match[2] or 1)
    return counts


def _expand(entry):
    """Return the names in an entry such as `node[01-03,07]`, which may contain several brackets."""
    parts = re.split(r"\[(.*?)\]", entry)  # every second part is from brackets
    choices = [_numbers(part) if i % 2 else [part] for i, part in enumerate(parts)]
    return ["".join(choice) for choice in itertools.product(*choices)]


def _numbers(ranges):
    """Return the numbers in `01-03,07` as strings with leading zeros."""
    found = []
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        numbers = range(int(first), int(last or first) + 1)
        found += [str(number).zfill(len(first)) for number in numbers]
    return found


def _first_port(tasks_of_a_node):
    text = os.environ.get(PORT) or str(_FIRST_PORT + _offset_of_the_job(tasks_of_a_node))
    last = _LAST_PORT - tasks_of_a_node + 1
    if not text.isdecimal() or not 1 <= int(text) <= last:
        raise UserInputError(
            f"{PORT} must be a port from 1 to {last}, the first of {tasks_of_a_node} on a "
            f"node. Received: {text}"
        )
    return int(text)


def _offset_of_the_job(tasks_of_a_node):
    ports = max(_PORTS_OF_A_JOB, tasks_of_a_node)
    job = os.environ.get(JOB, "")
    number = int(job) if job.isdecimal() else 0
    return number % max(1, (_LAST_PORT + 1 - _FIRST_PORT) // ports) * ports


VARIABLE = "TF_CONFIG"
JOBS = ("chief", "worker")  # in task order


class TensorFlowReplicas(Devices):
    """Several devices of one process, using a `MirroredStrategy`."""

    def __init__(self, device_name: str, strategy: tf.distribute.Strategy, **place: int) -> None:
        super().__init__(device_name, strategy.num_replicas_in_sync, **place)
        self.strategy = strategy

    def scope(self) -> AbstractContextManager[tf.distribute.Strategy]:
        """Return the strategy's scope."""
        return self.strategy.scope()


def start(replicas: int | None) -> Devices:
    """Implement `start_devices` on TensorFlow."""
    gpus = tf.config.list_physical_devices("GPU")
    device_name = _kind(gpus[0]) if gpus else "CPU"
    if gpus:
        check_gpu_count(replicas, len(gpus))
    if is_one_of_several():
        return TensorFlowMachines(device_name, start_machines(replicas))
    if gpus:
        replicas = replicas or len(gpus)
        logical_devices = tf.config.list_logical_devices("GPU")
        # Gradients are exchanged between GPUs through NCCL.
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
    """Return the type of a physical GPU, such as "NVIDIA H200"."""
    return tf.config.experimental.get_device_details(gpu).get("device_name", "GPU")


def _logical_cpus(count: int) -> list[tf.config.LogicalDevice]:
    """Divide the CPU into `count` logical devices, unless this has already been done."""
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


class TensorFlowMachines(TensorFlowReplicas):
    """The devices of several processes, using a `MultiWorkerMirroredStrategy`."""

    def __init__(self, device_name: str, strategy: tf.distribute.Strategy) -> None:
        jobs, (job, index) = _cluster()
        processes = sum(map(len, jobs.values()))
        before = len(jobs.get("chief", [])) if job == "worker" else 0
        super().__init__(device_name, strategy, processes=processes, process=before + index)

    def batches(self, reader: BatchReader, start_step: int = 0, accumulate: int = 1) -> Batches:
        """Return a distributed dataset of this process's rows; see `Devices.batches`."""
        replicas_here = self.replicas // self.processes
        own_batches = super().batches

        def read(_: tf.distribute.InputContext) -> tf.data.Dataset:
            dataset: tf.data.Dataset = own_batches(reader, start_step, accumulate)
            if replicas_here == 1:
                return dataset
            # The replicas of a process read elements in turn.
            return dataset.map(lambda *batch: _in_parts(batch, replicas_here)).unbatch()

        return self.strategy.distribute_datasets_from_function(read)

    def largest(self, number: int) -> int:
        own = number * tf.one_hot(self.process, self.processes, dtype="int32")
        return int(tf.reduce_max(self._sum(own)))

    @staticmethod
    def _is_lost(error: BaseException) -> bool:
        is_unavailable = isinstance(error, tf.errors.UnavailableError)
        return is_unavailable or "Collective ops is aborted" in str(error)

    @tf.function
    def _sum(self, own):
        def sum_up(own):
            own = tf.identity(own)  # on the replica's device
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own)

        return self.strategy.experimental_local_results(self.strategy.run(sum_up, (own,)))[0]


class MultiWorkerSteps(keras.Model):
    """A model whose steps also run with a `MultiWorkerMirroredStrategy`.

    Keras's steps average logs over an axis that scalars lack (keras-team/keras#20585).
    """

    train_function: Callable[..., Any] | None
    test_function: Callable[..., Any] | None

    def make_train_function(self, force: bool = False) -> Callable[..., Any]:
        if not self._has_machines():
            return super().make_train_function(force)
        if self.train_function is None or force:
            self.train_function = self._on_all_machines(self.train_step)
        return self.train_function

    def make_test_function(self, force: bool = False) -> Callable[..., Any]:
        if not self._has_machines():
            return super().make_test_function(force)
        if self.test_function is None or force:
            self.test_function = self._on_all_machines(self.test_step)
        return self.test_function

    def _has_machines(self):
        return isinstance(self.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy)

    def _on_all_machines(self, step):
        strategy = self.distribute_strategy

        @tf.function(reduce_retracing=True, jit_compile=self.jit_compile)
        @tf.autograph.experimental.do_not_convert
        def one_step(batch):
            logs = strategy.run(step, args=(batch,))
            return tf.nest.map_structure(lambda log: strategy.reduce("MEAN", log, axis=None), logs)

        @tf.function(reduce_retracing=True)
        @tf.autograph.experimental.do_not_convert
        def next_step(iterator):
            return one_step(iterator.get_next())

        return next_step


def is_one_of_several() -> bool:
    """Whether `TF_CONFIG`, or else Slurm, describes several processes including this process."""
    jobs, _ = _cluster()
    return sum(map(len, jobs.values())) > 1


def start_machines(replicas: int | None) -> tf.distribute.Strategy:
    """Wait for all processes, and return the strategy for them."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        check_one_cpu(replicas)
    implementations = tf.distribute.experimental.CommunicationImplementation
    try:
        if gpus:
            tf.config.set_visible_devices(gpus[:replicas], "GPU")
        return tf.distribute.MultiWorkerMirroredStrategy(
            _resolver(len(gpus[:replicas])),
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=implementations.NCCL if gpus else implementations.RING
            ),
        )
    except RuntimeError as error:
        raise one_start_only() from error


def _resolver(gpus: int) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Return the resolver that describes all processes and the GPUs of this process."""
    jobs, (job, index) = _cluster()
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(jobs),
        task_type=job,
        task_id=index,
        num_accelerators={"GPU": gpus},
        rpc_layer="grpc",
    )


def _cluster() -> tuple[dict[str, list[str]], tuple[str, int]]:
    """Return the addresses of all processes by job, and `(job, index)` of this process.

    They are read from `TF_CONFIG` or, without it, from the tasks of Slurm's `srun`.
    """
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        addresses, task = slurm_tasks()
        return {"worker": addresses}, ("worker", task)
    try:
        config = json.loads(text)
        jobs = {job: config["cluster"][job] for job in JOBS if job in config["cluster"]}
        job, index = config["task"]["type"], int(config["task"]["index"])
        jobs[job][index]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise UserInputError(
            f"{VARIABLE} must be JSON with the addresses of all workers and this one's index, such "
            'as {"cluster": {"worker": ["host1:1234", "host2:1234"]}, '
            f'"task": {{"type": "worker", "index": 0}}}}. Received: {text}'
        ) from error
    return jobs, (job, index)


def _in_parts(batch, count):
    def parts(tensor):
        return tf.reshape(tensor, [count, -1, tf.shape(tensor)[1]])

    return keras.tree.map_structure(parts, batch)

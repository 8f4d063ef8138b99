"""Several machines that train one model on TensorFlow: `MultiWorkerMirroredStrategy` and `fit`."""

import json
import os

import keras
import tensorflow as tf

from keras_transformer.errors import UserInputError
from keras_transformer.training.devices.device_count import check_one_cpu, one_start_only
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.devices.machine_watch import MachineWatch

VARIABLE = "TF_CONFIG"
JOBS = ("chief", "worker")  # in the order of their tasks


class TensorFlowMachines(Devices):
    """The devices of several processes, under a `MultiWorkerMirroredStrategy`."""

    def __init__(self, device_name, strategy):
        jobs, (job, index) = _cluster()
        processes = sum(map(len, jobs.values()))
        before = len(jobs.get("chief", [])) if job == "worker" else 0
        super().__init__(device_name, strategy.num_replicas_in_sync, processes, before + index)
        self.strategy = strategy

    def scope(self):
        """Return the strategy's scope."""
        return self.strategy.scope()

    def batches(self, reader, start_step=0, accumulate=1):
        """As `Devices.batches`: a distributed dataset, of this process's rows."""
        replicas_here = self.replicas // self.processes
        own_batches = super().batches

        def read(_):
            dataset = own_batches(reader, start_step, accumulate)
            if replicas_here == 1:
                return dataset
            # The replicas of a process take one element each, in turn.
            return dataset.map(lambda *batch: _in_parts(batch, replicas_here)).unbatch()

        return self.strategy.distribute_datasets_from_function(read)

    def largest(self, number):
        """As `Devices.largest`."""
        own = number * tf.one_hot(self.process, self.processes, dtype="int32")
        return int(tf.reduce_max(self._sum(own)))

    def watch(self, run=None):
        """As `Devices.watch`."""
        return MachineWatch(is_lost, run)

    @tf.function
    def _sum(self, own):
        def sum_up(own):
            own = tf.identity(own)  # on the replica's device
            return tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, own)

        return self.strategy.experimental_local_results(self.strategy.run(sum_up, (own,)))[0]


class MultiWorkerSteps:
    """A `keras.Model` whose steps run under a `MultiWorkerMirroredStrategy` too.

    Keras's own average the logs over an axis that scalars do not have (keras-team/keras#20585).
    """

    def make_train_function(self, force=False):
        """As Keras's."""
        if not self._has_machines():
            return super().make_train_function(force)
        if self.train_function is None or force:
            self.train_function = self._on_all_machines(self.train_step)
        return self.train_function

    def make_test_function(self, force=False):
        """As Keras's."""
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


def is_one_of_several():
    """Whether `TF_CONFIG` names several processes, of which this is one."""
    jobs, _ = _cluster()
    return sum(map(len, jobs.values())) > 1


def start_machines(replicas):
    """Return the strategy over all processes; waits for them."""
    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        check_one_cpu(replicas)
    implementations = tf.distribute.experimental.CommunicationImplementation
    try:
        if gpus:
            tf.config.set_visible_devices(gpus[:replicas], "GPU")
        return tf.distribute.MultiWorkerMirroredStrategy(
            communication_options=tf.distribute.experimental.CommunicationOptions(
                implementation=implementations.NCCL if gpus else implementations.RING
            )
        )
    except RuntimeError as error:
        raise one_start_only() from error


def is_lost(error):
    """Whether an error says that another machine does not answer."""
    return isinstance(error, tf.errors.UnavailableError) or "Collective ops is aborted" in str(
        error
    )


def _cluster():
    """Return the addresses of `TF_CONFIG` by job, and this process's `(job, index)`."""
    text = os.environ.get(VARIABLE, "")
    if not text.strip():
        return {}, ("worker", 0)
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

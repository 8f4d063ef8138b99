"""Fault-tolerant training on the machines of a Ray cluster."""

import contextlib
import dataclasses
import io
import logging
import os
import shutil
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, TextIO

from keras_transformer.errors import UserInputError, WorkerLost
from keras_transformer.files import scratch_directory, tell
from keras_transformer.installation import CORES, LOG_LEVEL, THREADS, backend_name
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit.cluster.ray_start import LOCAL, ray_cluster, said_by_ray
from keras_transformer.toolkit.cluster.worker_resources import (
    Resources,
    Workers,
    resources_of,
    room,
    wait_for_other_work,
)
from keras_transformer.types import PathLike

# Maximum number of consecutive attempts without a new checkpoint.
_MOST_ATTEMPTS = 3
# Time to wait for a cluster that has lost all its machines.
_WAIT_SECONDS = 300
_POLL_SECONDS = 5
# Ray Train reads these variables in this process.
_ENVIRONMENT = {
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",  # workers print as they would without Ray
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # workers run in this process's folder
    "RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S": "30",  # do not wait long for a lost machine
}
_LISTEN_SECONDS = 0.2


def train_on_ray(
    train: Callable[[bool], object],
    run: PathLike,
    *,
    address: str = LOCAL,
    workers: int | None = None,
    worker_cpus: int | None = None,
    overwrite: bool = False,
    resume: bool = False,
) -> None:
    """Train on the workers of a Ray cluster.

    Ray Train starts the workers and tells each of them about the group, using `TensorflowTrainer`
    (which sets `TF_CONFIG`) or, on JAX, `JaxTrainer`. Each worker then calls `train`, as each
    machine would without Ray. If a worker or a machine is lost, training resumes from the last
    state with as many workers as still fit. Training fails after three consecutive attempts without
    a new checkpoint. This process prints the first worker's output.

    Args:
        train: picklable function of `resume` that trains in a `TrainingRun` of `run`.
        run: run directory, which all machines must be able to access.
        address: address of the cluster, as in `ray_cluster`.
        workers: number of workers. None means one per GPU in the cluster or, without GPUs, as many
            as the CPUs allow.
        worker_cpus: CPUs per worker. None means 1 with a GPU; otherwise 4, or fewer if the smallest
            machine has fewer.
        overwrite: whether `train` replaces an existing run if `resume` is False.
        resume: argument for the first call to `train`.

    Raises:
        UserInputError: the cluster has no room for the workers, a worker raised this error, or
            workers were lost three times without progress.

    Example:

    ```python
    def train(resume):
        with TrainingRun("/shared/runs/first", steps=10_000, resume=resume) as run:
            ...

    train_on_ray(train, "/shared/runs/first", address="auto", workers=8)
    ```
    """
    directory = RunDirectory(Path(run).absolute())
    if not resume:
        RunDirectory.create(directory.path, overwrite=overwrite)
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    asked = Workers(workers, worker_cpus)
    stdout = sys.stdout  # replaced by the cluster's context
    earlier = None if resume else _identity(directory)

    def last_step() -> int | None:
        """Return the step of the last state, 0 without a state, or None before training starts."""
        if _identity(directory) == earlier:
            return None
        return max(map(step_of, directory.checkpoints.states()), default=0)

    with ray_cluster(address) as ray:
        resources = resources_of(ray, asked)
        streams = {"stdout": stdout, "stderr": sys.stderr}
        attempts = 0
        while True:
            if address != LOCAL:
                wait_for_other_work(ray, resources)
            step = last_step()
            again = resume or step is not None
            error = _run_workers(ray, train, again, resources, directory.path, streams)
            if error is None:
                return
            _raise_unless_lost(error)
            new_step = last_step()
            attempts = 0 if (new_step or 0) > (step or 0) else attempts + 1
            if attempts == _MOST_ATTEMPTS:
                raise UserInputError(
                    f"Workers were lost {attempts} times during training without a new checkpoint "
                    f"in {directory.path}. The last time: {said_by_ray(error)}"
                ) from error
            resources = _room_again(ray, asked)
            place = f"step {new_step}" if new_step else "the beginning"
            tell(f"{_what_happened(error)} Resuming from {place} with {resources.number} of them.")


@dataclasses.dataclass(frozen=True)
class _WorkerLoop:
    """The training loop of each worker."""

    train: Callable[[bool], object]
    resume: bool
    folder: str
    queue: Any
    terminals: dict[str, bool]

    def __call__(self) -> None:
        import ray.train

        with contextlib.suppress(OSError):  # the folder may be missing on this machine
            os.chdir(self.folder)
        logging.getLogger().setLevel(logging.WARNING)  # as without Ray
        context = ray.train.get_context()
        if os.environ.get("KERAS_BACKEND") == "jax":
            _describe_group_to_jax(context.get_world_rank(), context.get_world_size())
        is_first = context.get_world_rank() == 0
        streams = _printing_to(self.queue, self.terminals)
        with streams if is_first else contextlib.nullcontext():
            self.train(self.resume)


def _describe_group_to_jax(rank: int, size: int) -> None:
    """Set the environment variables that tell JAX about the workers of the group.

    For TensorFlow, Ray Train sets such variables itself.
    """
    import ray
    from ray.train.collective import broadcast_from_rank_zero

    from keras_transformer.training.devices.jax_devices import ADDRESSES, PROCESS, PROCESSES

    address = None
    if rank == 0:
        host = ray.util.get_node_ip_address()
        with socket.socket() as free:
            free.bind((host, 0))
            address = f"{host}:{free.getsockname()[1]}"
        os.environ.setdefault("JAX_COORDINATOR_BIND_ADDRESS", address)  # not all interfaces
    os.environ[ADDRESSES] = broadcast_from_rank_zero(address)
    os.environ[PROCESSES] = str(size)
    os.environ[PROCESS] = str(rank)


def _run_workers(
    ray: ModuleType,
    train: Callable[[bool], object],
    resume: bool,
    resources: Resources,
    run: Path,
    streams: dict[str, TextIO],
) -> Exception | None:
    """Run the workers until they stop. Return the error reported by Ray Train, or None."""
    from ray.util.queue import Empty, Queue
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    failures: list[Exception] = []
    here = ray.get_runtime_context().get_node_id()
    strategy = NodeAffinitySchedulingStrategy(here, soft=False)
    with contextlib.ExitStack() as stack:
        storage = stack.enter_context(scratch_directory(run.parent))  # accessible to all machines
        queue = Queue(actor_options={"num_cpus": 0, "scheduling_strategy": strategy})
        stack.callback(queue.shutdown, force=True)
        terminals = {name: stream.isatty() for name, stream in streams.items()}
        loop = _WorkerLoop(train, resume, os.getcwd(), queue, terminals)
        trainer = _trainer(loop, resources, storage)

        def fit() -> None:
            try:
                trainer.fit()
            except Exception as error:  # handled in the caller's thread
                failures.append(error)

        # Use a thread so that Ctrl-C ends this process as it would without Ray.
        thread = threading.Thread(target=fit, daemon=True)
        thread.start()
        while thread.is_alive() or not queue.empty():
            with contextlib.suppress(Empty):  # after a brief period without output
                name, text = queue.get(timeout=_LISTEN_SECONDS)
                streams[name].write(text)
                streams[name].flush()
    return failures[0] if failures else None


def _trainer(loop: _WorkerLoop, resources: Resources, storage: Path) -> Any:
    """Return the trainer for the backend in `KERAS_BACKEND`."""
    from ray.train import ScalingConfig
    from ray.train.v2.api.config import FailureConfig, RunConfig

    per_worker = {"CPU": resources.num_cpus, "GPU": resources.num_gpus}
    variables = {
        "KERAS_BACKEND": backend_name(),
        LOG_LEVEL: os.environ.get(LOG_LEVEL, "2"),
        "COLUMNS": str(shutil.get_terminal_size().columns),
    }
    if not resources.num_gpus:
        cpus = str(resources.num_cpus)
        variables |= {CORES: cpus, THREADS: cpus, "JAX_PLATFORMS": "cpu"}
    options: dict[str, Any] = {
        "scaling_config": ScalingConfig(
            num_workers=resources.number,
            use_gpu=bool(resources.num_gpus),
            resources_per_worker={name: number for name, number in per_worker.items() if number},
        ),
        "run_config": RunConfig(
            name="training",
            storage_path=str(storage),
            # The caller handles retries, because fewer machines may be left.
            failure_config=FailureConfig(
                max_failures=0, max_preemption_failures=0, controller_failure_limit=0
            ),
            worker_runtime_env={"env_vars": variables},
        ),
    }
    if variables["KERAS_BACKEND"] == "jax":
        from ray.train.v2.jax import JaxTrainer
        from ray.train.v2.jax.config import JaxConfig

        # Without `use_gpu`, it leaves it to the workers to form a group.
        return JaxTrainer(loop, jax_config=JaxConfig(), **options)
    from ray.train.tensorflow import TensorflowTrainer

    return TensorflowTrainer(loop, **options)


def _raise_unless_lost(error: Exception) -> None:
    """Raise a worker's error, unless a worker was lost, which can cause errors in other workers."""
    from ray.exceptions import RayError
    from ray.train import ControllerError
    from ray.train.v2._internal.exceptions import RayTrainError

    failures = list(getattr(error, "worker_failures", {}).values()) or [error]
    if isinstance(error, ControllerError):
        failures = [error.controller_failure]
    if any(isinstance(failure, (WorkerLost, RayError, RayTrainError)) for failure in failures):
        return
    for failure in failures:
        if isinstance(failure, UserInputError):
            raise failure
    raise error


def _what_happened(error: Exception) -> str:
    from ray.train import ControllerError
    from ray.train.v2._internal.exceptions import WorkerGroupStartupTimeoutError

    failure = error.controller_failure if isinstance(error, ControllerError) else error
    if isinstance(failure, WorkerGroupStartupTimeoutError):
        seconds = os.environ["RAY_TRAIN_WORKER_GROUP_START_TIMEOUT_S"]
        return f"The cluster had no room for the workers within {seconds} seconds."
    return "A worker was lost during training."


def _room_again(ray: ModuleType, asked: Workers) -> Resources:
    """Return the workers' resources on the remaining cluster. Wait if no machine is left."""
    end = time.monotonic() + _WAIT_SECONDS
    while room(ray, asked) is None and time.monotonic() <= end:
        time.sleep(_POLL_SECONDS)
    return resources_of(ray, asked, or_fewer=True)


def _identity(directory: RunDirectory) -> tuple[int, int] | None:
    """Return an identifier that distinguishes a run from later runs in the same directory."""
    try:
        status = directory.record_path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


@contextlib.contextmanager
def _printing_to(queue: Any, terminals: dict[str, bool]) -> Iterator[None]:
    """Context manager that redirects output to the streams of another process.

    Args:
        queue: Ray queue of `(name, text)` pairs.
        terminals: whether each stream of the other process is a terminal.
    """
    stdout, stderr = (_RemoteStream(queue, *each) for each in terminals.items())
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        try:
            yield
        finally:
            stdout.flush()
            stderr.flush()


class _RemoteStream(io.StringIO):
    """A stream that sends complete lines and flushed text to another process."""

    encoding = "utf-8"

    def __init__(self, queue: Any, name: str, is_terminal: bool) -> None:
        super().__init__()
        self._queue = queue
        self._name = name
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> int:
        super().write(text)
        if "\n" in text:
            self.flush()
        return len(text)

    def flush(self) -> None:
        text = self.getvalue()
        self.seek(0)
        self.truncate()
        if text:
            # If the other process has exited, training also ends, but not because of a message.
            with contextlib.suppress(Exception):
                self._queue.put((self._name, text))

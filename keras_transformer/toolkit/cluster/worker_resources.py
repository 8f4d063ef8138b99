"""The number of workers that fit in a cluster and the resources of each worker."""

import contextlib
import time
from types import ModuleType
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.files import tell

_GRACE_SECONDS = 5
_POLL_SECONDS = 0.25


class Workers(NamedTuple):
    """The workers requested by a job.

    Args:
        number: number of workers. None means one per GPU in the cluster or, without GPUs, as many
            as the CPUs allow.
        num_cpus: CPUs per worker, which is also the number of threads per operation. None means 1
            with a GPU; otherwise 4, or fewer if the smallest machine has fewer.
    """

    number: int | None = None
    num_cpus: int | None = None


class Resources(NamedTuple):
    """Number of workers, with the CPUs and GPUs of each worker."""

    number: int
    num_cpus: int
    num_gpus: int


def resources_of(ray: ModuleType, workers: Workers, *, or_fewer: bool = False) -> Resources:
    """Return the resources of the workers on the cluster in its current state.

    Args:
        ray: the module, connected.
        workers: requested workers.
        or_fewer: whether to use as many workers as fit instead of raising an error.

    Raises:
        UserInputError: the cluster does not have enough resources for the workers.
    """
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    machines = [(int(x.get("CPU", 0)), int(x.get("GPU", 0))) for x in nodes if x.get("CPU", 0) >= 1]
    num_gpus = 1 if any(gpus for _, gpus in machines) else 0
    num_cpus = workers.num_cpus or (1 if num_gpus else min([4, *(cpus for cpus, _ in machines)]))
    fitting = sum(
        min(cpus // num_cpus, gpus) if num_gpus else cpus // num_cpus for cpus, gpus in machines
    )
    number = workers.number or fitting
    if or_fewer:
        number = min(number, fitting)
    if number > fitting or not number:
        device = f"{num_cpus} CPUs" + (" and a GPU" if num_gpus else "")
        room = f"The cluster has room for {fitting} workers of {device}"
        raise UserInputError(f"{room}. Received: {number} workers" if number else f"{room}.")
    return Resources(number, num_cpus, num_gpus)


def tell_of_other_work(ray: ModuleType, resources: Resources) -> None:
    """Tell the user if the workers must wait for resources that other work is using.

    Call this before starting the job's tasks. It first waits briefly for tasks of earlier jobs.
    """
    end = time.monotonic() + _GRACE_SECONDS
    while (lacking := _lacking(ray, resources)) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    for message in lacking:
        tell(message)


def wait_for_other_work(ray: ModuleType, resources: Resources) -> None:
    """Wait, with a message, until other work releases the resources that the workers need.

    This returns immediately if the cluster has become too small because machines were lost.
    """
    tell_of_other_work(ray, resources)
    asked = Workers(resources.number, resources.num_cpus)
    while _lacking(ray, resources) and room(ray, asked) == resources:
        time.sleep(_POLL_SECONDS)


def room(ray: ModuleType, workers: Workers) -> Resources | None:
    """Return resources for as many workers as fit in the cluster, ignoring other work."""
    with contextlib.suppress(UserInputError):
        return resources_of(ray, workers, or_fewer=True)
    return None


def _lacking(ray: ModuleType, resources: Resources) -> list[str]:
    """Return messages about resources that the workers need but that are not free."""
    needed = {
        "CPU": resources.number * resources.num_cpus,
        "GPU": resources.number * resources.num_gpus,
    }
    free = ray.available_resources()
    return [
        f"The cluster has {free.get(name, 0):g} free {name}s of the {number} that the workers "
        "need: waiting for other work to finish. Use `--workers` to request fewer"
        for name, number in needed.items()
        if free.get(name, 0) < number
    ]

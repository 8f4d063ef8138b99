"""How many workers a cluster has room for, and what each of them has."""

import time
from types import ModuleType
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell

_GRACE_SECONDS = 5
_POLL_SECONDS = 0.25


class Workers(NamedTuple):
    """The workers of a job, as asked for.

    Args:
        number: how many. None: as many as the cluster's GPUs, or as its CPUs allow.
        num_cpus: CPUs of each, and so the threads of its operations. None: 1 beside a GPU, else 4,
            or those of the smallest machine if they are fewer.
    """

    number: int | None = None
    num_cpus: int | None = None


class Resources(NamedTuple):
    """Number of workers, and CPUs and GPUs of each."""

    number: int
    num_cpus: int
    num_gpus: int


def resources_of(ray: ModuleType, workers: Workers, *, or_fewer: bool = False) -> Resources:
    """What the workers have on this cluster as it is now.

    Args:
        ray: the module, connected.
        workers: the workers.
        or_fewer: whether to take as many as there is room for instead of refusing.

    Raises:
        UserInputError: the cluster has no room for them.
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
    """Tell if other work of the cluster holds what the workers need: they wait for it.

    To be called before the job's own tasks, after a moment for those of an earlier one to end.
    """
    end = time.monotonic() + _GRACE_SECONDS
    while (lacking := _lacking(ray, resources)) and time.monotonic() < end:
        time.sleep(_POLL_SECONDS)
    for message in lacking:
        tell(message)


def wait_for_other_work(ray: ModuleType, resources: Resources) -> None:
    """Wait until the cluster's other work leaves what the workers need; tell of it.

    Returns at once when machines are lost, so that too little is left for them.
    """
    tell_of_other_work(ray, resources)
    while _lacking(ray, resources) and has_room(ray, resources):
        time.sleep(_POLL_SECONDS)


def has_room(ray: ModuleType, resources: Resources) -> bool:
    """Whether the cluster, without other work, still has what the workers need."""
    try:
        return resources_of(ray, Workers(resources.number, resources.num_cpus)) == resources
    except UserInputError:
        return False


def _lacking(ray: ModuleType, resources: Resources) -> list[str]:
    """What the workers need and the cluster does not have free, as messages."""
    needed = {
        "CPU": resources.number * resources.num_cpus,
        "GPU": resources.number * resources.num_gpus,
    }
    free = ray.available_resources()
    return [
        f"The cluster has {free.get(name, 0):g} free {name}s of the {number} that the workers "
        "need: waiting for its other work. `--workers` asks for fewer"
        for name, number in needed.items()
        if free.get(name, 0) < number
    ]

"""How many workers a cluster has room for, and what each of them has."""

import time
from types import ModuleType
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import tell

_GRACE_SECONDS = 5


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
    needed = {
        "CPU": resources.number * resources.num_cpus,
        "GPU": resources.number * resources.num_gpus,
    }
    end = time.monotonic() + _GRACE_SECONDS
    while True:
        free = ray.available_resources()
        lacking = [name for name in needed if free.get(name, 0) < needed[name]]
        if not lacking or time.monotonic() > end:
            break
        time.sleep(0.25)
    for name in lacking:
        tell(
            f"The cluster has {free.get(name, 0):g} free {name}s of the {needed[name]} that the "
            "workers need: waiting for its other work"
        )

"""How many workers fit on a cluster."""

import types

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.formats.export_translator import cpu_threads
from keras_transformer.installation import CORES, num_cores
from keras_transformer.toolkit.cluster import worker_resources
from keras_transformer.toolkit.cluster.worker_resources import (
    Resources,
    Workers,
    resources_of,
    tell_of_other_work,
    wait_for_other_work,
)


def cluster_of(*machines):
    """A stand-in for Ray with machines of so many CPUs and GPUs, and one that is lost."""
    nodes = [{"Alive": True, "Resources": {"CPU": c, "GPU": g}} for c, g in machines]
    return types.SimpleNamespace(
        nodes=lambda: [*nodes, {"Alive": False, "Resources": {"CPU": 99.0, "GPU": 9.0}}]
    )


@pytest.mark.parametrize(
    ("machines", "asked", "resources"),
    [
        ([(8.0, 0), (2.0, 0)], Workers(), Resources(5, 2, 0)),
        ([(64.0, 0), (8.0, 0)], Workers(), Resources(18, 4, 0)),
        ([(8.0, 0), (2.0, 0)], Workers(None, 3), Resources(2, 3, 0)),
        ([(8.0, 4.0)], Workers(), Resources(4, 1, 1)),
        ([(8.0, 4.0)], Workers(None, 8), Resources(1, 8, 1)),
        ([(4.0, 8.0), (16.0, 0)], Workers(), Resources(4, 1, 1)),
        ([(8.0, 4.0), (8.0, 2.0)], Workers(3, 2), Resources(3, 2, 1)),
    ],
)
def test_workers_have_cpus_and_gpus(machines, asked, resources):
    assert resources_of(cluster_of(*machines), asked) == resources


def test_too_many_workers_are_refused():
    with pytest.raises(UserInputError, match="room for 0 workers of 100 CPUs and a GPU.$"):
        resources_of(cluster_of((8.0, 4.0)), Workers(None, 100))
    with pytest.raises(UserInputError, match="room for 2 workers of 4 CPUs. Received: 3 workers"):
        resources_of(cluster_of((8.0, 0)), Workers(3))
    assert resources_of(cluster_of((8.0, 0)), Workers(3), or_fewer=True) == Resources(2, 4, 0)


def test_other_work_is_told(capsys, monkeypatch):
    monkeypatch.setattr(worker_resources, "_GRACE_SECONDS", 0)
    ray = types.SimpleNamespace(available_resources=lambda: {"CPU": 1.0, "memory": 9.0})
    tell_of_other_work(ray, Resources(2, 1, 0))
    assert capsys.readouterr().err == (
        "The cluster has 1 free CPUs of the 2 that the workers need: waiting for other work to "
        "finish. Use `--workers` to request fewer\n"
    )
    tell_of_other_work(ray, Resources(1, 1, 0))
    assert capsys.readouterr().err == ""


def test_a_training_waits_for_other_work(capsys, monkeypatch):
    monkeypatch.setattr(worker_resources, "_GRACE_SECONDS", 0)
    monkeypatch.setattr(worker_resources, "_POLL_SECONDS", 0)
    ray = cluster_of((2.0, 0))
    free = iter([1.0, 1.0, 1.0, 2.0])
    ray.available_resources = lambda: {"CPU": next(free)}
    wait_for_other_work(ray, Resources(2, 1, 0))
    assert list(free) == []
    assert capsys.readouterr().err.count("waiting for other work") == 1
    ray.available_resources = lambda: {"CPU": 1.0}
    wait_for_other_work(ray, Resources(3, 1, 0))  # a machine is lost: nothing to wait for


def test_engines_of_a_worker_have_its_cores(monkeypatch):
    monkeypatch.setenv(CORES, "16")
    assert num_cores() == cpu_threads(None) == 16
    assert cpu_threads(3) == 3

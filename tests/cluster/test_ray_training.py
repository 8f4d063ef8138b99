"""Trainings on a cluster of two nodes: as two processes train, whatever is killed."""

import functools
import os
import re
import signal

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.toolkit import cli
from keras_transformer.toolkit.cluster import train_on_ray
from tests.cluster.processes import processes
from tests.python_programs import start_on_cpu
from tests.training.devices.test_machines import group, losses, wait_for_state
from tests.translation_training.number_text import SMALL, flags, write_pairs

EXACT = {"rtol": 1e-5, "atol": 0}
BACKENDS = ("tensorflow", "jax")
# Enough for a kill between two checkpoints, at a rate at which rounding grows slowly.
LONG = {"steps": 400, "learning_rate_scale": 0.01}


def text_in(folder):
    """The flags of a training text."""
    source, target = write_pairs(folder, "train")
    return ["--source", source, "--target", target]


@pytest.fixture
def text(tmp_path):
    return text_in(tmp_path)


def training(text, run, *arguments, **settings):
    """The arguments of a small training."""
    settings = {**SMALL, "save_every": 10, "log_every": 1, "bleu_every": 0, **settings}
    return ["train", *text, "--run", str(run), *flags(**settings), *arguments]


def on_cluster(cluster, *arguments):
    return [*arguments, "--cluster", cluster.address, "--workers", "2", "--worker-cpus", "1"]


def start(backend, arguments, **variables):
    """Start the command in a process of its own."""
    return start_on_cpu(backend, "-m", "keras_transformer", *arguments, **variables)


def ends_well(process):
    """What a process printed on standard error, which has to end without an error."""
    try:
        _, errors = process.communicate(timeout=500)
    finally:
        process.kill()
    assert process.returncode == 0, errors
    return errors


def two_processes(backend, arguments):
    """Train with two processes, without Ray."""
    for process in [start(backend, arguments, **one) for one in group(backend, 2)]:
        ends_well(process)


@pytest.fixture(scope="module")
def long_losses(tmp_path_factory):
    """Function of a backend: the losses of two processes that train long and lose nothing."""

    @functools.cache
    def of(backend):
        folder = tmp_path_factory.mktemp(backend)
        two_processes(backend, training(text_in(folder), folder / "plain", **LONG))
        return losses(folder / "plain")

    return of


def kill_a_worker(cluster):
    """Kill one of the two processes that train."""
    os.kill(processes(cluster, "ray::.*RayTrainWorker")[-1], signal.SIGKILL)


def kill_a_node(cluster):
    node = next(node for node in cluster.list_all_nodes() if not node.head)
    cluster.remove_node(node, allow_graceful=False)


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
@pytest.mark.parametrize("backend", BACKENDS)
def test_it_trains_as_two_processes_do(cluster, text, backend, tmp_path):
    ray, plain = tmp_path / "ray", tmp_path / "plain"
    errors = ends_well(start(backend, on_cluster(cluster, *training(text, ray))))
    assert "step 12/12" in errors  # the progress of the first worker
    two_processes(backend, training(text, plain))
    assert len(losses(ray)) == SMALL["steps"]
    np.testing.assert_allclose(losses(ray), losses(plain), **EXACT)
    assert RunDirectory.open(ray).scores_path.is_file()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"train.en", "train.de", "prepared", "ray", "plain"}


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kill", [kill_a_worker, kill_a_node])
def test_it_goes_on_without_what_is_killed(cluster, text, backend, kill, tmp_path, long_losses):
    ray = tmp_path / "ray"
    process = start(backend, on_cluster(cluster, *training(text, ray, **LONG)))
    wait_for_state(ray, [process])
    kill(cluster)
    try:
        errors = ends_well(process)
    finally:
        if kill is kill_a_node:
            cluster.add_node(num_cpus=1)
    lost = re.search(r"A worker was lost during training. Resuming from step (\d+) with", errors)
    assert 0 < int(lost[1]) < LONG["steps"]
    assert "Traceback" not in errors
    assert len(losses(ray)) == LONG["steps"]
    # One worker that is left adds in another order than two: after some hundred updates its
    # losses differ by more, here and in any training on one device and on two.
    end = int(lost[1]) + 50 if kill is kill_a_node else LONG["steps"]
    np.testing.assert_allclose(losses(ray)[:end], long_losses(backend)[:end], **EXACT)
    np.testing.assert_allclose(losses(ray), long_losses(backend), rtol=1e-3)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_training_whose_driver_is_killed_is_resumed(cluster, text, tmp_path, long_losses):
    ray = tmp_path / "ray"
    process = start("tensorflow", on_cluster(cluster, *training(text, ray, **LONG)))
    wait_for_state(ray, [process])
    process.kill()
    process.wait()
    resumed = on_cluster(cluster, *training(text, ray, "--resume", **LONG))
    ends_well(start("tensorflow", resumed))
    assert len(losses(ray)) == LONG["steps"]
    np.testing.assert_allclose(losses(ray), long_losses("tensorflow"), **EXACT)


@pytest.mark.slow
@pytest.mark.tensorflow
def test_a_worker_s_error_is_one_line(cluster, text, tmp_path, capsys):
    text[1] = str(tmp_path / "missing.en")
    code = cli.main(on_cluster(cluster, *training(text, tmp_path / "run")))
    assert code == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert [line for line in lines if line.startswith("error:")] == lines
    assert "missing.en" in lines[-1]


@pytest.mark.slow
@pytest.mark.tensorflow
def test_it_gives_up_without_progress(cluster, tmp_path):
    with pytest.raises(
        UserInputError, match="lost 3 times during training without a new checkpoint"
    ):
        train_on_ray(_Killed(), tmp_path / "run", address=cluster.address, worker_cpus=1)


class _Killed:
    """A training whose worker dies."""

    def __call__(self, resume):
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.tensorflow
def test_a_run_is_not_overwritten(text, trained_run, capsys):
    assert cli.main([*training(text, trained_run), "--cluster"]) == 2
    assert "exists. Choose another one" in capsys.readouterr().err


@pytest.mark.tensorflow
def test_flags_of_the_cluster_need_it(text, tmp_path, capsys):
    assert cli.main(training(text, tmp_path / "run", "--workers", "2")) == 2
    assert capsys.readouterr().err == "error: `--workers` needs `--cluster`.\n"

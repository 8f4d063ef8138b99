"""Processes that train together, as machines do, against one; and what happens when one is lost."""

import json
import signal
import socket
import time

import numpy as np
import pytest

from keras_transformer.runs.run_directory import RunDirectory
from tests.python_programs import start_on_cpu
from tests.training.equal_runs import rows

BACKENDS = ("tensorflow", "jax")
EXACT = {"rtol": 1e-5, "atol": 0}


def free_addresses(count):
    """Addresses of this computer on which nobody listens."""
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in sockets]
    for each in sockets:
        each.close()
    return addresses


def group(backend, count):
    """The environment variables of each process of a group."""
    addresses = free_addresses(count)
    for index in range(count):
        if backend == "tensorflow":
            task = {"type": "worker", "index": index}
            yield {"TF_CONFIG": json.dumps({"cluster": {"worker": addresses}, "task": task})}
        else:
            yield {
                "KERAS_DISTRIBUTION_JOB_ADDRESSES": addresses[0],
                "KERAS_DISTRIBUTION_NUM_PROCESSES": str(count),
                "KERAS_DISTRIBUTION_PROCESS_ID": str(index),
            }


def start(backend, *arguments, **variables):
    """Start the program `machine` in a process of its own."""
    return start_on_cpu(
        backend,
        *("-m", "tests.training.devices.machine", *arguments),
        **{"TF_CPP_MIN_LOG_LEVEL": "3", **variables},
    )


def start_group(backend, count, *arguments):
    return [start(backend, *arguments, **variables) for variables in group(backend, count)]


def ends(process, timeout=600):
    """Exit code, stdout and stderr of a process that has to end by itself."""
    try:
        out, errors = process.communicate(timeout=timeout)
    finally:
        process.kill()
    return process.returncode, out, errors


def losses(run):
    return [float(row["loss"]) for row in rows(run / "metrics.csv")]


def validations(run):
    return [float(row["val_perplexity"]) for row in rows(run / "validation.csv")]


@pytest.mark.slow
@pytest.mark.tensorflow  # once, not again in the run of JAX
@pytest.mark.parametrize("backend", BACKENDS)
def test_two_processes_train_as_one_does(backend, tmp_path):
    alone, together, nowhere = (tmp_path / name for name in ("alone", "together", "nowhere"))
    chief, worker = (
        start(backend, run, 5, "--alone", alone, **variables)
        for run, variables in zip((together, nowhere), group(backend, 2), strict=True)
    )
    for process in (chief, worker):
        code, _, errors = ends(process)
        assert code == 0, errors
    assert len(losses(alone)) == 5
    np.testing.assert_allclose(losses(together), losses(alone), **EXACT)
    np.testing.assert_allclose(validations(together), validations(alone), **EXACT)
    assert not nowhere.exists()  # the chief alone writes


def wait_for_state(run, processes, after=0, seconds=600):
    """Wait until a state of a step behind `after` is there; return its step."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at:
        states = RunDirectory(run).checkpoints.states() if run.is_dir() else []
        step = int(states[-1].name.split("-")[1].split(".")[0]) if states else 0
        if step > after:
            return step
        assert all(process.poll() is None for process in processes), ends(processes[0])
        time.sleep(0.05)
    raise TimeoutError(f"No state after step {after} in {run}")


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_lost_machine_ends_the_others_and_all_resume(backend, tmp_path):
    together, alone = tmp_path / "together", tmp_path / "alone"
    step = 0
    for victim, survivor in ((1, 0), (0, 1)):
        processes = start_group(backend, 2, together, 100_000, "--pace", 0.1)
        step = wait_for_state(together, processes, after=step)
        processes[victim].kill()
        code, _, errors = ends(processes[survivor])
        ends(processes[victim])
        if backend == "jax" and victim == 0 and code == -signal.SIGABRT:  # JAX was faster
            assert "JAX distributed service detected fatal errors" in errors
            continue
        assert code == 2
        (message,) = [line for line in errors.splitlines() if line.startswith("error:")]
        assert "Lost contact with another machine" in message
        assert ".state.npz. Start all machines again with --resume." in message
        assert "Traceback" not in errors

    # One is told to stop: both do, after the same step.
    processes = start_group(backend, 2, together, 100_000, "--pace", 0.1)
    step = wait_for_state(together, processes, after=step)
    processes[1].send_signal(signal.SIGTERM)
    assert [ends(process)[0] for process in processes] == [143, 143]
    assert len(losses(together)) >= step

    steps = -(-len(losses(together)) // 5) * 5 + 5
    for process in [*start_group(backend, 2, together, steps), start(backend, alone, steps)]:
        code, _, errors = ends(process)
        assert code == 0, errors
    assert len(losses(together)) == steps
    np.testing.assert_allclose(losses(together), losses(alone), rtol=1e-4)


@pytest.mark.tensorflow
@pytest.mark.parametrize(
    "config",
    [
        "{",
        '{"cluster": {"worker": ["a:1", "b:1"]}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 2}}',
        '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "ps", "index": 0}}',
    ],
)
def test_a_broken_description_of_the_group_is_refused(config, monkeypatch):
    from keras_transformer.errors import UserInputError
    from keras_transformer.training import start_devices

    monkeypatch.setenv("TF_CONFIG", config)
    with pytest.raises(UserInputError, match="TF_CONFIG must be JSON with the addresses"):
        start_devices()

"""A training that is killed, stopped or damaged at any moment goes on as if there had been none."""

import csv
import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer.run_directory import RunDirectory
from keras_transformer.training import find_state


class Trainings:
    """The program `killed_training`, on one backend."""

    def __init__(self, backend):
        environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.training.killed_training"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, path, kill=None, **options):
        """Exit code and stderr of a training, new or gone on with."""
        job = {"path": str(path), "options": options, "kill": kill}
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        assert self.process.wait() == 0


@pytest.fixture(scope="module")
def trainings(request):
    started = {}

    def on(backend="tensorflow"):
        if backend not in started:
            started[backend] = Trainings(backend)
        return started[backend]

    yield on
    for each in started.values():
        each.close()


def rows(path, left_out=()):
    with open(path, newline="") as file:
        return [
            {name: value for name, value in row.items() if name not in left_out}
            for row in csv.DictReader(file)
        ]


def arrays(state):
    with np.load(state.path) as file:
        return {name: file[name] for name, _, _ in state.variables}


def assert_equal_runs(path, reference):
    """Losses, validations, checkpoints and the last state are equal to the last bit."""
    run, other = RunDirectory.open(path), RunDirectory.open(reference)
    clock = ("seconds", "target_tokens_per_second")
    for name in ("metrics.csv", "validation.csv"):
        assert rows(run.path / name, clock) == rows(other.path / name, clock)
    assert len(rows(run.metrics_path)) == 20
    assert run.best_record() == other.best_record()
    names = [sorted(file.name for file in each.checkpoints_path.iterdir()) for each in (run, other)]
    assert names[0] == names[1]
    for checkpoint in ("best", run.checkpoints()[-1].name.removesuffix(".weights.h5")):
        for ours, theirs in zip(
            run.load_model(checkpoint).get_weights(),
            other.load_model(checkpoint).get_weights(),
            strict=True,
        ):
            np.testing.assert_array_equal(ours, theirs)
    ours, theirs = arrays(find_state(run)), arrays(find_state(other))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_killed_at_random_moments(trainings, tmp_path):
    """Twice: in the file operations of a beginning or a checkpoint, and anywhere."""
    run = trainings().run
    assert run(tmp_path / "whole", ema=True)[0] == 0
    operation, seconds = random.randint(1, 60), random.uniform(0.1, 4)
    print(f"killed at operation {operation}, and after {seconds} seconds")
    assert run(tmp_path / "run", kill=operation, ema=True)[0] == -9
    assert run(tmp_path / "run", kill=seconds, ema=True)[0] in (-9, 0)
    code, errors = run(tmp_path / "run", ema=True)
    assert (code, "damaged" in errors) == (0, False)
    assert_equal_runs(tmp_path / "run", tmp_path / "whole")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("tensorflow", {"ema": True, "loss_scale": True}),
        ("tensorflow", {"mode": "max", "patience": 2}),
        ("jax", {"ema": True}),
    ],
)
def test_killed_at_every_file_operation(trainings, tmp_path, backend, options):
    run = trainings(backend).run
    assert run(tmp_path / "whole", **options)[0] == 0
    code, operation = -9, 0
    while code == -9:
        operation += 1
        path = tmp_path / str(operation)
        code, _ = run(path, kill=operation, **options)
        if code == -9:
            assert run(path, **options)[0] == 0
            assert_equal_runs(path, tmp_path / "whole")
    assert operation > 40

"""A training that is killed, stopped or damaged at any moment goes on as if there had been none."""

import csv
import json
import os
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training import check_same_settings, find_state
from keras_transformer.training.rewind import cut_rows


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


@pytest.fixture(scope="module")
def whole(trainings, tmp_path_factory):
    """A training of 20 steps without a break."""
    path = tmp_path_factory.mktemp("whole") / "run"
    assert trainings().run(path, ema=True)[0] == 0
    return path


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
    clock = ("seconds", "target_tokens_per_second", "step_seconds")
    for name in ("metrics.csv", "validation.csv"):
        assert rows(run.path / name, clock) == rows(other.path / name, clock)
    assert run.best_record() == other.best_record()
    names = [sorted(file.name for file in each.checkpoints_path.iterdir()) for each in (run, other)]
    assert names[0] == names[1]
    for checkpoint in ("best", run.checkpoints()[-1].name.removesuffix(".weights.h5")):
        weights = [each.load_model(checkpoint).get_weights() for each in (run, other)]
        for ours, theirs in zip(*weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    ours, theirs = arrays(find_state(run)), arrays(find_state(other))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def test_killed_at_random_moments(trainings, whole, tmp_path):
    """Twice: in the file operations of a beginning or a checkpoint, and anywhere."""
    run = trainings().run
    operation, seconds = random.randint(1, 60), random.uniform(0.1, 4)
    print(f"killed at operation {operation}, and after {seconds} seconds")
    assert run(tmp_path / "run", kill=operation, ema=True)[0] == -9
    assert run(tmp_path / "run", kill=seconds, ema=True)[0] in (-9, 0)
    code, errors = run(tmp_path / "run", ema=True)
    assert (code, "damaged" in errors) == (0, False)
    assert_equal_runs(tmp_path / "run", whole)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "options"),
    [
        ("tensorflow", {"ema": True, "loss_scale": True}),
        ("tensorflow", {"mode": "max", "patience": 2}),
        ("jax", {"ema": True}),
    ],
)
def test_killed_at_many_file_operations(trainings, tmp_path, backend, options):
    """At every seventh one of a training, 7 having no part in the number of those of a save."""
    run = trainings(backend).run
    assert run(tmp_path / "whole", **options)[0] == 0
    code, operation = -9, random.randint(1, 7)
    while code == -9:
        path = tmp_path / str(operation)
        print(f"killed at operation {operation}")
        code, _ = run(path, kill=operation, **options)
        if code == -9:
            assert run(path, **options)[0] == 0
        assert_equal_runs(path, tmp_path / "whole")
        operation += 7
    assert operation > 100


def place(path):
    """The step of the last state, and whether a validation is to be done there."""
    state = find_state(RunDirectory.open(path))
    return state.step, state.progress["validation_due"]


def test_stopped_in_an_epoch_in_a_validation_and_between_them(trainings, whole, tmp_path):
    run = trainings().run
    path = tmp_path / "run"
    code, errors = run(path, ema=True, at=["train", 6, "SIGTERM"])
    assert code == 143
    assert "Terminated. The weights are saved: " in errors
    assert "step-00000006.weights.h5. The same command with --resume goes on." in errors
    assert place(path) == (6, False)
    assert run(path, ema=True, at=["test", 2, "SIGTERM"])[0] == 143
    assert place(path) == (8, True)
    assert run(path, ema=True, at=["train", 4, "SIGINT"])[0] == 130
    assert place(path) == (12, True)
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


@pytest.mark.parametrize(
    ("limit", "file"),
    [
        ("full disk", "checkpoints/step-00000012.weights.h5"),
        pytest.param("no disk", "metrics.csv", marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_one_line_and_takes_nothing(trainings, whole, tmp_path, limit, file):
    run = trainings().run
    path = tmp_path / "run"
    code, errors = run(path, ema=True, at=["train", 10, limit])
    assert code == 2
    assert errors[errors.index("error: ") :] == (
        f"error: Cannot write {path}/{file}: File too large. The last good checkpoint is "
        f"{path}/checkpoints/step-00000008.weights.h5.\n"
    )
    assert "Traceback" not in errors
    assert not list(path.rglob(".partial-*"))
    assert place(path) == (8, False)
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-100])


@pytest.fixture
def copy(whole, tmp_path):
    return RunDirectory.open(shutil.copytree(whole, tmp_path / "copy"))


@pytest.mark.parametrize("damage", [flip_a_byte, truncate])
@pytest.mark.parametrize("checksums", [True, False])
def test_a_damaged_state_is_named_and_the_one_before_is_taken(copy, capsys, damage, checksums):
    if not checksums:
        copy.checksums_path.write_text("{")
    assert copy.states() == [copy.state_path(16), copy.state_path(20)]
    assert find_state(copy).step == 20
    assert capsys.readouterr().err == ""
    damage(copy.state_path(20))
    assert find_state(copy).step == 16
    assert f"{copy.state_path(20)} is damaged: " in capsys.readouterr().err
    damage(copy.state_path(16))
    with pytest.raises(UserInputError, match="Every state of the run .* is damaged"):
        find_state(copy)


def test_a_training_goes_on_from_the_state_before_a_damaged_one(trainings, whole, copy):
    flip_a_byte(copy.state_path(20))
    code, errors = trainings().run(copy.path, ema=True)
    assert (code, "step-00000020.state.npz is damaged" in errors) == (0, True)
    assert_equal_runs(copy.path, whole)


def test_weights_without_a_state_are_never_taken_for_a_beginning(copy):
    for path in copy.states():
        path.unlink()
    with pytest.raises(UserInputError, match="has weights, but no state to go on from"):
        find_state(copy)


def test_damaged_weights_are_left_out_aloud(copy, capsys):
    first, last = copy.checkpoints()[-2:]
    assert copy.whole_checkpoints([first, last]) == [first, last]
    flip_a_byte(first)
    assert copy.whole_checkpoints([first, last]) == [last]
    assert f"{first} is damaged and left out" in capsys.readouterr().err


def test_a_state_of_another_model_or_text_is_refused(trainings, copy):
    code, errors = trainings().run(copy.path, ema=False)
    assert code == 2
    assert "is of another model or optimizer: " in errors


def test_other_settings_are_named_with_both_values():
    earlier = {"seed": 1, "batch_tokens": 4096, "steps": 5, "old": None}
    with pytest.raises(UserInputError) as error:
        check_same_settings(earlier, {"seed": 2, "batch_tokens": 4096, "steps": 9}, ["steps"])
    assert str(error.value) == (
        "The training cannot go on with other settings: "
        "`old` was null and is not given, `seed` was 1 and is 2."
    )


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("step,loss\n1,2.5\n2,2.25\n", "step,loss\n1,2.5\n"),
        ("step,loss\n1,2.5\n1", "step,loss\n1,2.5\n"),  # killed in a row, of step 12 maybe
        ("step,loss\n", "step,loss\n"),
        ("step,lo", ""),
        ("", ""),
    ],
)
def test_rows_behind_the_state_are_cut(tmp_path, text, kept):
    path = tmp_path / "metrics.csv"
    path.write_text(text)
    cut_rows(path, 1)
    assert path.read_text() == kept

"""A disk that gets full: one line, what was whole stays, and the training goes on with room."""

import random

import pytest

from tests.training.equal_runs import assert_equal_runs, place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limit", "file"),
    [
        ("full disk", "checkpoints/step-00000012.weights.h5"),
        ("no disk", "metrics.csv"),
    ],
)
def test_a_full_disk_is_one_line_and_takes_nothing(trainings, whole, tmp_path, limit, file):
    run = trainings().run
    path = tmp_path / "run"
    code, errors = run(path, ema=True, at=["train_batch_end", 10, limit])
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


@pytest.mark.slow
def test_event_files_for_which_there_is_no_room(trainings, whole, tmp_path):
    """To Keras, TensorFlow's error of a file that is too large is the end of the data."""
    run, path = trainings().run, tmp_path / "run"
    code, errors = run(path, ema=True, at=["train_batch_end", 10, "full events"], tensorboard=True)
    assert code == 2
    assert errors[errors.index("error: ") :] == (
        f"error: Cannot write {path}/tensorboard: File too large. The last good checkpoint is "
        f"{path}/checkpoints/step-00000008.weights.h5.\n"
    )
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


def check(run, path, operation, whole):
    """Fill the disk at a file operation, go on with room, and compare."""
    print(f"full at operation {operation}")
    code, errors = run(path, fill=operation, ema=True)
    if code == 0:
        return False
    assert code == 2, errors
    assert errors.count("error: Cannot write ") == 1
    assert "Traceback" not in errors
    assert not list(path.rglob(".partial-*"))
    code, errors = run(path, ema=True)
    assert (code, "damaged" in errors) == (0, False)
    assert_equal_runs(path, whole)
    return True


def test_a_disk_that_gets_full_anywhere(trainings, whole, tmp_path, random_seed):
    operation = random.Random(random_seed).randint(1, 80)
    assert check(trainings().run, tmp_path / str(operation), operation, whole)


@pytest.mark.slow
def test_a_disk_that_gets_full_everywhere(trainings, whole, tmp_path, random_seed):
    """At every seventh file operation, 7 having no part in the number of those of a save."""
    operation = random.Random(random_seed).randint(1, 7)
    while check(trainings().run, tmp_path / str(operation), operation, whole):
        operation += 7
    assert operation > 100

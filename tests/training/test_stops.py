"""A training that is told to stop, or whose directory goes: what can be kept is kept."""

import shutil
import signal
import sys

import pytest

from keras_transformer.training.callbacks.training_limits import StopOnInterrupt
from tests.training.equal_runs import assert_equal_runs, place, rows


@pytest.mark.slow
def test_a_closed_terminal_leaves_a_state(trainings, whole, tmp_path):
    """Nothing can be written to stderr from then on."""
    run, path = trainings().run, tmp_path / "run"
    at = ["train_batch_end", 6, "closed terminal"]
    assert run(path, ema=True, at=at, show_progress=True)[0] == 129
    assert place(path) == (6, False)
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)


class BusyStream:
    """As stderr is while something is being written to it."""

    def write(self, text):
        raise RuntimeError("reentrant call")


def test_a_signal_in_the_middle_of_a_write_is_no_error(monkeypatch):
    monkeypatch.setattr(sys, "stderr", BusyStream())
    interrupt = StopOnInterrupt()
    with pytest.raises(KeyboardInterrupt), interrupt:
        signal.raise_signal(signal.SIGTERM)
    assert interrupt.stopped_because == "terminated"


@pytest.mark.slow
def test_nohup_keeps_a_training_from_the_end_of_its_terminal(trainings, whole, tmp_path):
    run, path = trainings().run, tmp_path / "run"
    at = ["train_batch_end", 6, "closed terminal"]
    assert run(path, ema=True, at=at, show_progress=True, nohup=True)[0] == 0
    assert_equal_runs(path, whole)


@pytest.mark.slow
def test_a_stop_changes_nothing_and_is_no_time_of_the_training(trainings, whole, tmp_path):
    run, path = trainings().run, tmp_path / "run"
    assert run(path, ema=True, at=["train_batch_begin", 7, "stop"])[0] == 0
    assert_equal_runs(path, whole)
    timed = [bool(row["target_tokens_per_second"]) for row in rows(path / "metrics.csv")]
    assert timed == [step != 7 for step in range(1, 21)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("happening", "reason"),
    [
        ("deleted", "No such file or directory"),
        ("replaced", "Not a directory"),
        ("read-only", "Read-only file system"),
    ],
)
def test_a_run_that_goes_is_one_line(trainings, whole, tmp_path, happening, reason):
    run, path = trainings().run, tmp_path / "run"
    code, errors = run(path, ema=True, at=["train_batch_end", 6, happening], tensorboard=True)
    assert code == 2
    (line,) = errors[errors.index("error: ") :].splitlines()
    checkpoints = path / "checkpoints"
    place_of = checkpoints if happening == "replaced" else checkpoints / "step-00000008.weights.h5"
    verb = "read" if happening == "replaced" else "write"
    assert line.startswith(f"error: Cannot {verb} {place_of}: {reason}")
    assert "Traceback" not in errors
    if happening == "deleted":
        assert not path.exists()
    elif happening == "replaced":
        path.unlink()
        shutil.move(f"{path}-moved", path)
    assert not list(tmp_path.rglob(".partial-*"))
    if happening != "deleted":
        assert place(path) == (4, False)
    assert run(path, ema=True)[0] == 0
    assert_equal_runs(path, whole)

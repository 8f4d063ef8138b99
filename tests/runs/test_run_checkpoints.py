"""Checkpoints on disk: whether they are whole, and what a state takes back."""

import json
import os
from types import SimpleNamespace

import pytest

from keras_transformer.files.whole_files import whole_file, write_text
from keras_transformer.runs.run_checkpoints import RunCheckpoints
from keras_transformer.training.states.rewind import rewind


@pytest.fixture
def run(tmp_path):
    run = RunCheckpoints(tmp_path)
    run.metrics_path, run.validation_path = tmp_path / "metrics.csv", tmp_path / "validation.csv"
    run.checkpoints_path.mkdir()
    for step in (1, 2):
        write_text(run.checkpoint_path(step), f"weights of step {step}")
        run.keep_checksum(run.checkpoint_path(step))
    return run


def test_a_changed_file_is_damaged(run, capsys):
    first, second = run.checkpoints()
    second.write_text("other bytes")
    assert [run.is_damaged(path) for path in (first, second)] == [False, True]
    assert run.whole_checkpoints([first, second]) == [first]
    assert f"{second} is damaged and left out" in capsys.readouterr().err


def test_what_cannot_be_read_is_damaged(run):
    path = run.checkpoint_path(2)
    path.unlink()
    os.mkfifo(path)
    assert run.is_damaged(path)


def test_a_file_stays_whole_until_another_has_taken_its_name(run):
    path = run.checkpoint_path(2)
    for _ in range(2):  # a process is killed twice between the checksum and the new name
        partial = path.with_name("next")
        partial.write_text("weights written once more")
        run.keep_checksum(path, partial)
        assert not run.is_damaged(path)
    with whole_file(path, lambda complete: run.keep_checksum(path, complete)) as file:
        file.write(b"weights written once more")
    assert not run.is_damaged(path)
    path.write_text("weights of step 2")
    run.keep_checksum(run.checkpoint_path(1))
    path.write_text("damage")
    assert run.is_damaged(path)


def state(*kept):
    best = {"kept": [{"step": step, "value": float(step)} for step in kept], "keep_last": 5}
    return SimpleNamespace(step=2, progress={"best": best})


def test_the_best_is_brought_back(run):
    write_text(run.best_path, "weights of step 3")
    rewind(run, state(2, 1))
    assert run.best_path.read_text() == "weights of step 2"
    assert json.loads(run.best_record_path.read_text())["step"] == 2


def test_a_damaged_checkpoint_is_never_the_best(run, capsys):
    run.checkpoint_path(2).write_text("damage")
    rewind(run, state(2, 1))
    assert run.best_path.read_text() == "weights of step 1"
    assert json.loads(run.best_record_path.read_text())["kept"] == [{"step": 1, "value": 1.0}]
    assert "is damaged and left out" in capsys.readouterr().err

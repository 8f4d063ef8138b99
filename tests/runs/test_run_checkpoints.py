"""Checkpoints on disk: whether they are whole, and what a state takes back."""

import errno
import json
import os
import shutil
import subprocess
from types import SimpleNamespace

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files import checksum, whole_file, write_text
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.checkpoints.training_state import rewind


@pytest.fixture
def run(tmp_path):
    run = RunDirectory(tmp_path)
    run.checkpoints.directory.mkdir()
    for step in (1, 2):
        write_text(run.checkpoints.path_of(step), f"weights of step {step}")
        run.checksums.keep(run.checkpoints.path_of(step))
    return run


def test_a_changed_file_is_damaged(run, capsys):
    first, second = run.checkpoints.paths()
    second.write_text("other bytes")
    assert [run.checksums.is_damaged(path) for path in (first, second)] == [False, True]
    assert run.checkpoints.whole([first, second]) == [first]
    assert f"{second} is damaged and left out" in capsys.readouterr().err


def test_what_cannot_be_read_is_damaged(run):
    path = run.checkpoints.path_of(2)
    path.unlink()
    os.mkfifo(path)
    assert run.checksums.is_damaged(path)


def test_a_file_that_a_training_removes_or_replaces_meanwhile_is_not_damaged(run, monkeypatch):
    first, second = run.checkpoints.paths()

    def meanwhile(path):
        if path == first:
            path.unlink()
        if path == second and not replaced:
            replaced.append(path)
            return "0" * 64
        return checksum(path)

    replaced = []
    monkeypatch.setattr("keras_transformer.runs.checksums.checksum", meanwhile)
    run.checksums.check_files()
    assert replaced == [second]
    assert not first.exists()


def test_what_may_not_be_read_is_neither_empty_nor_damaged(run, monkeypatch):
    def refuse(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    paths, checkpoints = run.checkpoints.paths(), run.checkpoints
    monkeypatch.setattr("pathlib.Path.iterdir", refuse)  # root may read everything
    monkeypatch.setattr("keras_transformer.runs.checksums.checksum", refuse)
    for read in (checkpoints.paths, checkpoints.states, run.checksums.check_files):
        with pytest.raises(UserInputError, match="Cannot read .*: Permission denied"):
            read()
    with pytest.raises(UserInputError, match="Cannot read .*: Permission denied"):
        checkpoints.whole(paths)


def test_a_file_stays_whole_until_another_has_taken_its_name(run):
    path = run.checkpoints.path_of(2)
    for _ in range(2):  # a process is killed twice between the checksum and the new name
        partial = path.with_name("next")
        partial.write_text("weights written once more")
        run.checksums.keep(path, partial)
        assert not run.checksums.is_damaged(path)
    with whole_file(path, lambda complete: run.checksums.keep(path, complete)) as file:
        file.write(b"weights written once more")
    assert not run.checksums.is_damaged(path)
    path.write_text("weights of step 2")
    run.checksums.keep(run.checkpoints.path_of(1))
    path.write_text("damage")
    assert run.checksums.is_damaged(path)


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs the program sha256sum")
def test_sha256sum_reads_the_checksums(run):
    for number in range(2):
        run.checksums.write_json(run.settings_path, {"seed": number})
    run.checksums.copy(run.checkpoints.path_of(1), run.weights_path)
    run.checksums.remove(run.checkpoints.path_of(2))
    done = subprocess.run(
        ["sha256sum", "--check", "--strict", run.checksums.path.name],
        cwd=run.path,
        check=True,
        capture_output=True,
    )
    names = ["checkpoints/step-00000001.weights.h5", "model.weights.h5", "settings.json"]
    assert done.stdout.decode() == "".join(f"{name}: OK\n" for name in names)


def test_the_checksums_of_an_older_run_are_read(run):
    best, own = run.checkpoints.best_path, run.path / run.checkpoints.best_path.name
    sums = {}
    for path in (*run.checkpoints.paths(), best, own):
        path.write_text(f"weights in {path}")
        sums.setdefault(path.name, []).append(checksum(path))
    (run.path / "checksums.json").write_text(json.dumps({**sums, "gone.json": ["0" * 64]}))
    run.checksums.path.unlink()
    with pytest.raises(UserInputError, match="Missing in .*: gone.json"):
        run.checksums.check_files()
    (run.path / "checksums.json").write_text(json.dumps(sums))
    assert run.checksums.check_files() == 4
    first, second = run.checkpoints.paths()
    second.write_text("damage")
    assert run.checkpoints.whole([first, second, best]) == [first, best]
    run.checksums.write_json(run.settings_path, {"seed": 1})
    assert sorted(run.path.glob("*[sS][uU][mM][sS]*")) == [run.checksums.path]
    assert run.checkpoints.whole([first, second, best]) == [first, best]
    assert not run.checksums.is_damaged(own)


def test_files_of_one_name_in_both_directories_have_a_checksum_each(run):
    best, own = run.checkpoints.best_path, run.path / run.checkpoints.best_path.name
    for path in (best, own):
        path.write_text(f"weights in {path.parent.name}")
        run.checksums.keep(path)
    assert not run.checksums.is_damaged(best)
    assert not run.checksums.is_damaged(own)
    best.write_text("damage")
    run.checksums.keep(own)
    assert run.checksums.is_damaged(best)


def state(*kept):
    best = {"kept": [{"step": step, "value": float(step)} for step in kept], "keep_last": 5}
    return SimpleNamespace(step=2, progress={"best": best, "validation_due": False})


def test_the_best_is_brought_back(run):
    write_text(run.checkpoints.best_path, "weights of step 3")
    rewind(run, state(2, 1))
    assert run.checkpoints.best_path.read_text() == "weights of step 2"
    assert json.loads(run.checkpoints.best_record_path.read_text())["step"] == 2


def test_rows_after_the_state_are_cut(run):
    for path in (run.metrics_path, run.validation_path, run.layers_path):
        write_text(path, "step,value\n2,a\n2,b\n4,c\n")
    rewind(run, state(2, 1))
    for path in (run.metrics_path, run.validation_path, run.layers_path):
        assert path.read_text() == "step,value\n2,a\n2,b\n"


def test_a_damaged_checkpoint_is_never_the_best(run, capsys):
    run.checkpoints.path_of(2).write_text("damage")
    rewind(run, state(2, 1))
    assert run.checkpoints.best_path.read_text() == "weights of step 1"
    assert json.loads(run.checkpoints.best_record_path.read_text())["kept"] == [
        {"step": 1, "value": 1.0}
    ]
    assert "is damaged and left out" in capsys.readouterr().err


def test_an_older_checkpoint_kept_as_best_is_none_of_the_last(run):
    for path in run.checkpoints.paths():
        path.unlink()
    for step in (30, 60, 70, 80, 85):
        write_text(run.checkpoints.path_of(step), "weights")
    run.checkpoints.write_best_record({"kept": [{"step": 30, "value": 1.0}], "keep_last": 10})
    steps = [step_of(path) for path in run.checkpoints.last(save_every=10)]
    assert steps == [60, 70, 80, 85]
    assert len(run.checkpoints.last()) == len(run.checkpoints.last(save_every=30)) == 5
    run.checkpoints.write_best_record({"keep_last": 2})
    assert [step_of(path) for path in run.checkpoints.last(save_every=10)] == [80, 85]

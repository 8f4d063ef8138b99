"""Directories appear whole; where an export of one may go, and where it may not."""

import os
import tempfile

import pytest

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.files import (
    PARTIAL_DIRECTORY,
    check_new_directory,
    scratch_directory,
    set_aside,
    write_directory,
    write_new_directory,
)


def write_answer(path):
    (path / "answer").write_text("42")


def never(path):
    raise AssertionError("refused before anything is written")


def test_a_new_and_an_empty_directory_are_written(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/one"):
        assert write_new_directory(tmp_path / name, write_answer) == tmp_path / name
        assert (tmp_path / name / "answer").read_text() == "42"


def test_one_that_is_relative_to_the_current_one_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_new_directory("new", write_answer)
    assert os.listdir() == ["new"]


@pytest.mark.parametrize("name", [".", "", "../here", "../link"])
def test_the_current_directory_is_refused_and_stays(tmp_path, monkeypatch, name):
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    monkeypatch.chdir(here)
    with pytest.raises(
        UserInputError, match="is the current directory: choose a directory inside it.$"
    ):
        write_new_directory(name, never)
    assert os.listdir() == []
    assert os.path.samefile(".", here)


def test_a_mount_point_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    with pytest.raises(UserInputError, match=f"{tmp_path} is a mount point: choose a directory in"):
        write_new_directory(tmp_path, never)


def test_a_file_and_a_directory_with_files_are_refused(tmp_path):
    (tmp_path / "file").touch()
    for path, reason in (
        (tmp_path / "file", "file is a file"),
        (tmp_path, "already contains files"),
    ):
        message = f"{reason}: choose another directory.$"
        with pytest.raises(UserInputError, match=message):
            write_new_directory(path, never)
        with pytest.raises(UserInputError, match=message):
            check_new_directory(path)
    check_new_directory(tmp_path / "new")
    assert os.listdir(tmp_path) == ["file"]


def test_a_scratch_directory_is_removed_with_those_of_killed_processes(tmp_path):
    left = tmp_path / f"{PARTIAL_DIRECTORY}left"
    left.mkdir()
    with scratch_directory(tmp_path / "new"), scratch_directory(tmp_path) as first:
        with scratch_directory(tmp_path) as second:
            (first / "file").touch()
            assert set(tmp_path.iterdir()) == {tmp_path / "new", first, second}
        assert (first / "file").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


def test_a_directory_appears_whole_under_the_first_free_name(tmp_path):
    names = iter(["mine", "mine", "2"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "file").touch()
    with pytest.raises(CannotWrite, match="something is there"):
        write_directory(tmp_path, lambda: next(names), write_answer)
    assert write_directory(tmp_path, lambda: next(names), write_answer) == tmp_path / "2"
    assert (tmp_path / "2" / "answer").read_text() == "42"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["2", "mine"]
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["file"]


def test_a_directory_that_could_not_be_written_leaves_nothing(tmp_path):
    def write(path):
        write_answer(path)
        raise OSError(28, "No space left on device")

    for parent in (tmp_path, tmp_path / "new" / "parent"):
        with pytest.raises(CannotWrite, match="Cannot write .*/one: No space left on device"):
            write_directory(parent, lambda: "one", write)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("moment", ["made", "opened"])
def test_a_directory_that_was_taken_for_abandoned_is_made_again(tmp_path, monkeypatch, moment):
    """Another process may look between its making and its lock."""
    module, name = (tempfile, "mkdtemp") if moment == "made" else (os, "open")
    function, calls = getattr(module, name), []

    def interrupted(*arguments, **options):
        result = function(*arguments, **options)
        calls.append(result)
        if len(calls) == 1:
            (partial,) = tmp_path.iterdir()
            partial.rmdir()
        return result

    monkeypatch.setattr(module, name, interrupted)
    assert write_directory(tmp_path, lambda: "one", write_answer) == tmp_path / "one"
    assert (tmp_path / "one" / "answer").read_text() == "42"
    assert len(calls) > 1


def test_a_directory_that_was_set_aside_comes_back_if_no_new_one_could_be_written(tmp_path):
    path = write_directory(tmp_path, lambda: "one", write_answer)

    def fail(new):
        assert not path.exists()
        raise OSError(28, "No space left on device")

    with pytest.raises(CannotWrite, match="No space left"), set_aside(path):
        write_directory(tmp_path, lambda: "one", fail)
    assert (path / "answer").read_text() == "42"
    with set_aside(path):
        write_directory(tmp_path, lambda: "one", lambda new: (new / "new").touch())
    assert [each.name for each in path.iterdir()] == ["new"]
    with set_aside(tmp_path / "missing"):
        pass
    assert list(tmp_path.iterdir()) == [path]


def test_what_another_process_is_writing_stays(tmp_path):
    def write(path):
        write_directory(tmp_path, lambda: "inner", write_answer)
        assert path.is_dir()

    write_directory(tmp_path, lambda: "outer", write)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner", "outer"]

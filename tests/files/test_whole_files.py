import json
import os
import secrets
import tempfile

import pytest

from keras_transformer.errors import CannotWrite
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.whole_files import (
    PARTIAL,
    PARTIAL_DIRECTORY,
    remove_left_over,
    scratch_directory,
    set_aside,
    whole_file,
    write_directory,
    write_json,
    write_text,
)


def test_writes_are_whole_or_not_at_all(tmp_path):
    path = tmp_path / "scores.json"
    write_json(path, {"bleu": 41.0, "satz": "größer"})
    assert json.loads(path.read_text(encoding="utf-8")) == {"bleu": 41.0, "satz": "größer"}
    with pytest.raises(UnicodeEncodeError):
        write_text(path, "half \ud800")
    assert json.loads(path.read_text(encoding="utf-8"))["bleu"] == 41.0


def test_json_may_hold_names_of_files_that_are_not_utf_8(tmp_path):
    write_json(tmp_path / "scores.json", {"path": os.fsdecode(b"caf\xe9.en")})
    assert json.loads((tmp_path / "scores.json").read_bytes()) == {"path": "caf?.en"}


def test_a_scratch_directory_is_removed_with_those_of_killed_processes(tmp_path):
    left = tmp_path / f"{PARTIAL_DIRECTORY}left"
    left.mkdir()
    with scratch_directory(tmp_path / "new"), scratch_directory(tmp_path) as first:
        with scratch_directory(tmp_path) as second:
            (first / "file").touch()
            assert set(tmp_path.iterdir()) == {tmp_path / "new", first, second}
        assert (first / "file").exists()
    assert list(tmp_path.iterdir()) == [tmp_path / "new"]


def test_only_what_a_killed_process_left_is_removed(tmp_path):
    """A translation that was interrupted keeps its text in `.partial-NAME`."""
    left = {f"{PARTIAL}{'0a' * 16}", ".candidate-model.weights.h5"}
    kept = {f"{PARTIAL}test.de", f"{PARTIAL}test.de.json", "mine.partial", f"{PARTIAL}0a"}
    for name in left | kept:
        (tmp_path / name).touch()
    remove_left_over(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


def test_a_planted_link_is_not_followed(tmp_path, monkeypatch):
    """Even where the name of the partial file is known."""
    (tmp_path / "script").write_text("echo mine")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "known")
    (tmp_path / f"{PARTIAL}known").symlink_to(tmp_path / "script")
    with pytest.raises(CannotWrite, match="Cannot write .*scores.json: File exists"):
        write_json(tmp_path / "scores.json", {})
    assert (tmp_path / "script").read_text() == "echo mine"


def test_the_name_of_a_partial_file_is_another_each_time(tmp_path):
    names = set()
    for _ in range(2):
        with whole_file(tmp_path / "scores.json") as file:
            names.add(file.name)
    assert len(names) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["scores.json"]


def test_a_lock_s_name_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic links"), file_lock(tmp_path / "lock", print):
        pass
    assert not (tmp_path / "elsewhere").exists()


def write_answer(path):
    (path / "answer").write_text("42")


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

    with pytest.raises(CannotWrite, match="Cannot write .*/one: No space left on device"):
        write_directory(tmp_path, lambda: "one", write)
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

"""Where an export of one directory may go, and where it may not."""

import os

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.files.new_directory import check_new_directory, write_new_directory


def write(path):
    (path / "file").write_text("written", encoding="utf-8")


def never(path):
    raise AssertionError("refused before anything is written")


def test_a_new_and_an_empty_directory_are_written(tmp_path):
    (tmp_path / "empty").mkdir()
    for name in ("empty", "new/one"):
        assert write_new_directory(tmp_path / name, write) == tmp_path / name
        assert (tmp_path / name / "file").read_text("utf-8") == "written"


def test_one_that_is_relative_to_the_current_one_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_new_directory("new", write)
    assert os.listdir() == ["new"]


@pytest.mark.parametrize("name", [".", "", "../here", "../link"])
def test_the_current_directory_is_refused_and_stays(tmp_path, monkeypatch, name):
    here = tmp_path / "here"
    here.mkdir()
    (tmp_path / "link").symlink_to(here)
    monkeypatch.chdir(here)
    with pytest.raises(UserInputError, match="is the current directory: name one inside it.$"):
        write_new_directory(name, never)
    assert os.listdir() == []
    assert os.path.samefile(".", here)


def test_a_mount_point_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: path == tmp_path)
    with pytest.raises(UserInputError, match=f"{tmp_path} is a mount point: name a directory in"):
        write_new_directory(tmp_path, never)


def test_a_file_and_a_directory_with_files_are_refused(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserInputError, match="file is a file: name another directory.$"):
        write_new_directory(tmp_path / "file", never)
    with pytest.raises(UserInputError, match="holds files already: name another directory.$"):
        write_new_directory(tmp_path, never)
    with pytest.raises(UserInputError, match="holds files already: name another directory.$"):
        check_new_directory(tmp_path)
    check_new_directory(tmp_path / "new")
    assert os.listdir(tmp_path) == ["file"]

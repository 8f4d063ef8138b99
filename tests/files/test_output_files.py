"""Where an `--output` goes: files are replaced whole, pipes and devices are written to."""

import os
import threading

import pytest

from keras_transformer.errors import CannotWrite, UserInputError
from keras_transformer.files import find_output, open_stream, write_all, write_output


def test_a_file_is_replaced_and_a_link_is_not(tmp_path):
    (tmp_path / "link").symlink_to("file")
    for text in ("one", "two"):
        write_output(tmp_path / "link", text)
        assert (tmp_path / "file").read_text() == text
    assert (tmp_path / "link").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["file", "link"]


def test_a_pipe_is_written_to(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    read = []
    reader = threading.Thread(target=lambda: read.append((tmp_path / "pipe").read_text()))
    reader.start()
    write_output(tmp_path / "pipe", "x" * 100_000)
    reader.join()
    assert read == ["x" * 100_000]
    assert (tmp_path / "pipe").is_fifo()


def test_a_reader_that_leaves_is_told(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)

    def write():
        with open_stream(tmp_path / "pipe") as file:
            os.close(reader)
            write_all(file, b"text")

    with pytest.raises(CannotWrite, match="Broken pipe"):
        write()


def test_the_null_device_stays_one():
    write_output("/dev/null", "text")
    assert find_output("/dev/null").is_stream


def test_the_file_of_standard_output_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text("")
    monkeypatch.setattr(os, "fstat", lambda descriptor: path.stat())
    with pytest.raises(UserInputError, match="must not be the file of standard output"):
        find_output(path)

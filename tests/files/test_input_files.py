"""What a user may name for reading."""

import gzip
import os
import threading
import time
import zipfile

import numpy as np
import pytest

from keras_transformer.data.parallel_text import count_lines, parallel_lines, text_blocks
from keras_transformer.errors import UserInputError
from keras_transformer.input_files import (
    is_read_once,
    open_archive,
    open_input,
    read_archive_record,
    read_array,
    read_input,
    write_archive,
)
from keras_transformer.settings import read_settings_file
from keras_transformer.text import SentencePieceTokenizer, text_lines
from tests.written_files import error_of, write


@pytest.fixture
def pipe(tmp_path):
    """A function that makes a pipe, and writes to it as another process would."""
    writers = []

    def make(name, content):
        os.mkfifo(tmp_path / name)
        writers.append(threading.Thread(target=(tmp_path / name).write_bytes, args=[content]))
        writers[-1].start()
        return tmp_path / name

    yield make
    for writer in writers:
        writer.join()


def test_a_file_and_a_pipe_are_read(tmp_path, pipe):
    for read in (lambda path: read_input(path, 4), lambda path: next(text_lines.text_lines(path))):
        assert read(write(tmp_path / "file", b"text")) in (b"text", "text")
        reader, writer = os.pipe()  # as the shell's <(...)
        os.write(writer, b"text")
        os.close(writer)
        assert read(f"/dev/fd/{reader}") in (b"text", "text")
        os.close(reader)
    assert list(text_lines.text_lines(pipe("pipe", b"one\n"))) == ["one"]
    assert [is_read_once(tmp_path / name) for name in ("file", "pipe", "none", ".")] == [
        False,
        True,
        False,
        False,
    ]


def test_a_pipe_in_a_folder_from_strangers_is_no_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert read_input(tmp_path / "pipe", 4) == b""
    with pytest.raises(UserInputError, match="not a SentencePiece model"):
        SentencePieceTokenizer.load(tmp_path / "pipe")


def test_a_pipe_may_be_compressed(pipe):
    path = pipe("pipe.gz", gzip.compress(b"one\ntwo\n"))
    assert list(text_lines.text_lines(path)) == ["one", "two"]


@pytest.mark.parametrize("name", ["none", "."])
@pytest.mark.parametrize("read", [read_settings_file, SentencePieceTokenizer.load, count_lines])
def test_every_reader_of_what_a_user_names_says_what_is_wrong(tmp_path, read, name):
    path = tmp_path / name
    assert error_of(lambda: read(path)).startswith(f"Cannot read {path}: ")


@pytest.mark.parametrize("read", [read_settings_file, SentencePieceTokenizer.load])
def test_an_endless_device_is_refused(read):
    assert "/dev/zero must have at most" in error_of(lambda: read("/dev/zero"))


def test_a_body_that_fails_closes_the_file(tmp_path):
    path = write(tmp_path / "file", b"text")
    with pytest.raises(ZeroDivisionError), open_input(path) as file:
        _ = 1 / 0
    assert file.closed


class TestLongLines:
    """Lines of more than `MAX_LINE_BYTES`."""

    @pytest.fixture(autouse=True)
    def limit_of_four(self, monkeypatch):
        monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 4)

    def test_the_end_does_not_count(self, tmp_path):
        path = write(tmp_path / "a", "xxxx\nxxx\r\nxxxx")
        assert list(text_lines.text_lines(path)) == ["xxxx", "xxx", "xxxx"]

    @pytest.mark.parametrize("text", ["x\nyyyyy\nz", "x\nyyyyy"])
    def test_a_longer_line_is_named(self, tmp_path, text):
        message = error_of(lambda: list(text_lines.text_lines(write(tmp_path / "a", text))))
        assert message.endswith("a, line 2: longer than 4 bytes, the limit for a line of text.")

    def test_blocks_of_a_line_without_an_end_are_refused(self, tmp_path, monkeypatch):
        monkeypatch.setattr("keras_transformer.data.parallel_text._BLOCK_BYTES", 3)
        assert count_lines(write(tmp_path / "a", "xxx\nyyyy\nzz")) == 3
        message = error_of(lambda: list(text_blocks(write(tmp_path / "b", "x\nx\n" + "y" * 9))))
        assert message.startswith(f"{tmp_path / 'b'}, line 3: longer than 4 bytes")


@pytest.mark.parametrize(("sources", "targets"), [(3, 5), (5, 3), (1, 2)])
def test_pipes_of_different_lengths_are_counted_as_they_are_read(pipe, sources, targets):
    paths = pipe("a", b"a\n" * sources), pipe("b", b"b\n" * targets)
    with pytest.raises(UserInputError, match=f"a has {sources}, .*b has {targets}"):
        list(parallel_lines(*paths))


@pytest.mark.parametrize("now", [-1e9, 0.0, 4.6e9])  # before 1980 and after 2107, zip has no times
def test_an_archive_is_written_whatever_the_clock_says(tmp_path, monkeypatch, now):
    monkeypatch.setattr(time, "time", lambda: now)
    values = np.arange(6, dtype="float32").reshape(2, 3)
    with open(tmp_path / "a.npz", "wb") as file:
        write_archive(file, {"step": 3}, [("values", values)])
    with open_archive(tmp_path / "a.npz") as archive:
        assert read_archive_record(archive, "a.npz") == {"step": 3}
        found = read_array(archive, "values", [2, 3], 4)
    np.testing.assert_array_equal(found, values)


@pytest.mark.parametrize("shape", ["(301,), }", "(99999,), }", f"({10**13},), }}", "(", "((" * 9])
def test_an_array_that_is_not_what_its_header_says_is_an_error(tmp_path, shape):
    with open(tmp_path / "a.npz", "wb") as file:
        write_archive(file, {}, [("values", np.arange(300))])
    content = (tmp_path / "a.npz").read_bytes()
    start = content.index(b"(300,), }")
    padded = shape.ljust(20).encode()
    (tmp_path / "a.npz").write_bytes(content[:start] + padded + content[start + 20 :])
    number = int("".join(filter(str.isdigit, shape)) or 0)
    with (
        open_archive(tmp_path / "a.npz") as archive,
        pytest.raises((ValueError, zipfile.BadZipFile)),
    ):
        read_array(archive, "values", [number], 8)

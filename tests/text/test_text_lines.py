"""Lines of text files: what is a line, and one clear sentence for every fault of a file."""

import gzip
import os

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text.text_lines import one_line, text_lines
from tests.written_files import error_of, write


def read(path):
    return list(text_lines(path))


@pytest.mark.parametrize("name", ["train.en", "train.en.gz"])
def test_lines_end_at_newline_alone(tmp_path, name):
    odd = "a\u2028b \x0b \x0c \x1c \x85 c\u00a0d\re"
    path = write(tmp_path / name, f"{odd}\n\nwindows\r\nlast")
    assert read(path) == [odd, "", "windows", "last"]


def test_newline_at_the_end_starts_no_line(tmp_path):
    assert read(write(tmp_path / "a", "one\ntwo\n")) == ["one", "two"]


def test_byte_order_mark_is_no_text(tmp_path):
    assert read(write(tmp_path / "a", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo")) == [
        "one",
        "\ufefftwo",
    ]


def test_lines_come_one_by_one(tmp_path):
    lines = text_lines(write(tmp_path / "a", b"one\ntwo\n\xff\n"))
    assert next(lines) == "one"
    assert next(lines) == "two"
    with pytest.raises(UserInputError, match="line 3: not UTF-8"):
        next(lines)


def test_what_cannot_be_read(tmp_path):
    for path, reason in (
        (tmp_path / "a.en", "No such file or directory"),
        (tmp_path / "a.en.gz", "No such file or directory"),
        (tmp_path, "Is a directory"),
    ):
        assert error_of(read, path) == f"Cannot read {path}: {reason}"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(tmp_path):
    path = write(tmp_path / "a", "text")
    path.chmod(0)
    assert error_of(read, path) == f"Cannot read {path}: Permission denied"


def test_empty_file(tmp_path):
    (tmp_path / "no bytes.gz").write_bytes(b"")
    for path in (write(tmp_path / "a", ""), write(tmp_path / "a.gz", ""), tmp_path / "no bytes.gz"):
        assert error_of(read, path) == f"{path} is empty"


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_invalid_utf8_names_file_line_and_byte(tmp_path, name):
    path = write(tmp_path / name, b"one\ntwo\nd\xc3\xa9j\xe0 vu\nfour")
    message = error_of(read, path)
    assert message == f"{path}, line 3: not UTF-8 (byte 0xe0 at column 5)"
    surrogate = write(tmp_path / name, b"\xed\xa0\x80")
    assert "line 1: not UTF-8" in error_of(read, surrogate)


def damaged_gzips():
    whole = gzip.compress(b"".join(b"line %d\n" % number for number in range(1000)))
    flipped = bytearray(whole)
    flipped[len(whole) // 2] ^= 0xFF
    return {
        "plain text": b"not packed at all\n",
        "cut in the data": whole[: len(whole) // 2],
        "cut in the checksum": whole[:-3],
        "a flipped byte": bytes(flipped),
        "rubbish behind": whole + b"rubbish",
    }


@pytest.mark.parametrize("damage", damaged_gzips())
def test_damaged_gzip(tmp_path, damage):
    path = tmp_path / "a.gz"
    path.write_bytes(damaged_gzips()[damage])
    assert error_of(read, path).startswith(f"{path} is not a complete gzip file: ")


def test_a_line_break_in_a_translation_does_not_shift_the_lines(tmp_path):
    assert one_line("a\nb\r\nc") == "a b  c"
    lines = [one_line("a\u2028b\x0bc\n"), "d"]
    path = write(tmp_path / "a", "".join(line + "\n" for line in lines))
    assert read(path) == lines == ["a\u2028b\x0bc ", "d"]

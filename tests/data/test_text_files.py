"""Text files: what is a line, and one clear sentence for every fault of a file."""

import gzip
import os

import pytest

from keras_transformer.data import (
    find_text,
    find_text_files,
    read_parallel_text,
    read_text,
    text_lines,
)
from keras_transformer.data.text_files import count_lines
from keras_transformer.errors import UserInputError


def write(path, content):
    content = content if isinstance(content, bytes) else content.encode("utf-8")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["train.en", "train.en.gz"])
def test_lines_end_at_newline_alone(tmp_path, name):
    odd = "a\u2028b \x0b \x0c \x1c \x85 c\u00a0d\re"
    path = write(tmp_path / name, f"{odd}\n\nwindows\r\nlast")
    assert read_text(path) == [odd, "", "windows", "last"]


def test_newline_at_the_end_starts_no_line(tmp_path):
    assert read_text(write(tmp_path / "a", "one\ntwo\n")) == ["one", "two"]


def test_byte_order_mark_is_no_text(tmp_path):
    assert read_text(write(tmp_path / "a", b"\xef\xbb\xbfone\n\xef\xbb\xbftwo")) == [
        "one",
        "\ufefftwo",
    ]


def test_find_text_takes_plain_before_gzip(tmp_path):
    write(tmp_path / "val.en.gz", "packed")
    assert find_text(tmp_path, "val.en") == tmp_path / "val.en.gz"
    write(tmp_path / "val.en", "plain")
    assert find_text(str(tmp_path), "val.en") == tmp_path / "val.en"


def test_find_text_names_both_files(tmp_path):
    with pytest.raises(UserInputError, match="Neither val.de nor val.de.gz is in"):
        find_text(tmp_path, "val.de")


def test_parallel_files_may_differ_in_form(tmp_path):
    sources = write(tmp_path / "a.en", "one\ntwo\n")
    targets = write(tmp_path / "a.de.gz", "eins\nzwei")
    assert read_parallel_text(sources, targets) == (["one", "two"], ["eins", "zwei"])


def test_lines_come_one_by_one(tmp_path):
    lines = text_lines(write(tmp_path / "a", b"one\ntwo\n\xff\n"))
    assert next(lines) == "one"
    assert next(lines) == "two"
    with pytest.raises(UserInputError, match="line 3: not UTF-8"):
        next(lines)


@pytest.mark.parametrize(
    ("content", "lines"), [("one", 1), ("one\n", 1), ("one\ntwo", 2), ("\n\n", 2), ("\ufeff", 1)]
)
def test_lines_are_counted_as_they_are_read(tmp_path, content, lines):
    path = write(tmp_path / "a.gz", content)
    assert count_lines(path) == lines == len(read_text(path))


def test_patterns_and_paths_become_files(tmp_path):
    (tmp_path / "sub").mkdir()
    for name in ("b.en", "a.en.gz", "a.de", "sub/c.en", "odd[1].en"):
        write(tmp_path / name, "x")
    here = {name: tmp_path / name for name in ("a.en.gz", "b.en", "odd[1].en", "sub/c.en")}
    assert find_text_files(str(tmp_path / "*.en*")) == [
        here["a.en.gz"],
        here["b.en"],
        here["odd[1].en"],
    ]
    assert find_text_files(tmp_path / "b.en") == [here["b.en"]]
    assert find_text_files([here["sub/c.en"], tmp_path / "a.en*"]) == [
        here["sub/c.en"],
        here["a.en.gz"],
    ]
    assert find_text_files(tmp_path / "**" / "c.en") == [here["sub/c.en"]]
    assert find_text_files(here["odd[1].en"]) == [here["odd[1].en"]]


def test_a_pattern_of_folders_alone_matches_no_file(tmp_path):
    (tmp_path / "folder.en").mkdir()
    message = error_of(find_text_files, tmp_path / "*.en")
    assert message == f"No file matches {tmp_path / '*.en'}"


def test_files_that_are_not_there(tmp_path):
    assert error_of(find_text_files, []) == "No text file is named"
    assert error_of(find_text_files, tmp_path / "a.en") == (
        f"Cannot read {tmp_path / 'a.en'}: No such file or directory"
    )
    assert error_of(find_text_files, [tmp_path]) == f"Cannot read {tmp_path}: Is a directory"


def test_a_pipe_can_be_read_once_only(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "is no ordinary file" in error_of(find_text_files, tmp_path / "pipe")


def error_of(read, *paths):
    with pytest.raises(UserInputError) as error:
        read(*paths)
    message = str(error.value)
    assert "\n" not in message
    return message


def test_unequal_line_counts_name_files_and_counts(tmp_path):
    sources, targets = write(tmp_path / "a.en", "1\n2\n3\n"), write(tmp_path / "a.de", "1\n2\n")
    message = error_of(read_parallel_text, sources, targets)
    assert message.endswith(f"{sources} has 3, {targets} has 2")


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_missing_file(tmp_path, name):
    assert error_of(read_text, tmp_path / name) == (
        f"Cannot read {tmp_path / name}: No such file or directory"
    )


def test_directory(tmp_path):
    assert error_of(read_text, tmp_path) == f"Cannot read {tmp_path}: Is a directory"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_unreadable_file(tmp_path):
    path = write(tmp_path / "a", "text")
    path.chmod(0)
    assert error_of(read_text, path) == f"Cannot read {path}: Permission denied"


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_empty_file(tmp_path, name):
    path = write(tmp_path / name, "")
    assert error_of(read_text, path) == f"{path} is empty"


def test_file_of_no_bytes_named_gzip(tmp_path):
    (tmp_path / "a.gz").write_bytes(b"")
    assert error_of(read_text, tmp_path / "a.gz") == f"{tmp_path / 'a.gz'} is empty"


@pytest.mark.parametrize("name", ["a.en", "a.en.gz"])
def test_invalid_utf8_names_file_line_and_byte(tmp_path, name):
    path = write(tmp_path / name, b"one\ntwo\nd\xc3\xa9j\xe0 vu\nfour")
    message = error_of(read_text, path)
    assert message == f"{path}, line 3: not UTF-8 (byte 0xe0 at column 5)"


def test_surrogates_are_not_utf8(tmp_path):
    assert "line 1: not UTF-8" in error_of(read_text, write(tmp_path / "a", b"\xed\xa0\x80"))


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
    assert error_of(read_text, path).startswith(f"{path} is not a whole gzip file: ")

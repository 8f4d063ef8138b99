"""Text files found by name and pattern, read whole, in pairs, and counted."""

import os

import pytest

from keras_transformer.data import find_text, find_text_files, read_parallel_text, read_text
from keras_transformer.data.parallel_text import count_lines
from keras_transformer.errors import UserInputError
from tests.written_files import error_of, write


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
    assert error_of(find_text_files, []) == "No text file was given"
    assert error_of(find_text_files, tmp_path / "a.en") == (
        f"Cannot read {tmp_path / 'a.en'}: No such file or directory"
    )
    assert error_of(find_text_files, [tmp_path]) == f"Cannot read {tmp_path}: Is a directory"
    assert error_of(count_lines, write(tmp_path / "b", "")) == f"{tmp_path / 'b'} is empty"


def test_a_pipe_can_be_read_once_only(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "must be a regular file" in error_of(find_text_files, tmp_path / "pipe")

import io
import sys

import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text import text_lines
from keras_transformer.toolkit.cli import text_streams
from keras_transformer.toolkit.cli.text_streams import (
    chunks_of_lines,
    line_bar,
    pieces_of,
    write_lines,
)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_chunks_hold_every_line_once_however_the_bytes_arrive(monkeypatch, size):
    monkeypatch.setattr(text_streams, "READ_BYTES", size)
    lines = ["", "eins", "zwei €", "", "größer", "ohne Ende"]
    stream = io.BufferedReader(io.BytesIO("\n".join(lines).encode()))
    assert [line for chunk in chunks_of_lines(stream) for line in chunk] == lines


def test_a_large_input_is_read_in_large_chunks():
    stream = io.BufferedReader(io.BytesIO(b"line\n" * 100_000))
    chunks = [len(chunk) for chunk in chunks_of_lines(stream)]
    assert sum(chunks) == 100_000
    assert max(chunks) > 1000


def test_lines_are_written_at_once():
    raw = io.BytesIO()
    stream = io.BufferedWriter(raw)
    write_lines(stream, ["größe", ""])
    assert raw.getvalue() == "größe\n\n".encode()


def test_a_line_of_many_pieces_is_read_in_time_that_grows_with_its_length(monkeypatch):
    monkeypatch.setattr(text_streams, "READ_BYTES", 16)
    text = "x" * 1_000_000  # a copy of all pieces at each of them would take minutes
    stream = io.BufferedReader(io.BytesIO(f"{text}\n{text}".encode()), buffer_size=16)
    assert list(chunks_of_lines(stream)) == [[text], [text]]


def test_a_byte_order_mark_is_no_text():
    stream = io.BufferedReader(io.BytesIO("\ufeffeins\n\ufeffzwei\n".encode()))
    assert list(chunks_of_lines(stream)) == [["eins", "\ufeffzwei"]]


@pytest.mark.parametrize("size", [2, 1000])
def test_a_line_that_is_too_long_is_named_after_those_before_it(monkeypatch, size):
    monkeypatch.setattr(text_streams, "READ_BYTES", size)
    monkeypatch.setattr(text_lines, "MAX_LINE_BYTES", 4)
    for text in (b"one\nlonger", b"one\nlonger\n"):
        chunks = chunks_of_lines(io.BufferedReader(io.BytesIO(text)))
        assert next(chunks) == ["one"]
        with pytest.raises(UserInputError, match="Line 2 of standard input: longer than 4 bytes"):
            next(chunks)
    assert list(chunks_of_lines(io.BufferedReader(io.BytesIO(b"four\nfour")))) != []


def test_a_piece_of_long_lines_has_few_of_them(monkeypatch):
    monkeypatch.setattr(text_streams, "PIECE_CHARACTERS", 6)
    lines = ["aaa", "bb", "cc", "d" * 9, "", "e"]
    assert [*pieces_of(lines, 4)] == [["aaa", "bb", "cc"], ["d" * 9], ["", "e"]]
    assert [*pieces_of([("aaa", "bbb"), ("c", "d")], 4)] == [[("aaa", "bbb")], [("c", "d")]]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_a_bar_with_its_title_is_for_terminals(monkeypatch):
    for stderr, begins in ((Terminal(), "\rbeam 5: 100%|"), (io.StringIO(), "")):
        monkeypatch.setattr(sys, "stderr", stderr)
        with line_bar(4, initial=4, title="beam 5"):
            pass
        assert stderr.getvalue()[: len("\rbeam 5: 100%|")] == begins

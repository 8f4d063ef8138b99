import io

import pytest

from keras_transformer.commands import line_stream
from keras_transformer.commands.line_stream import chunks_of_lines, one_line, write_lines


@pytest.mark.parametrize("size", [1, 2, 3, 5, 1000])
def test_chunks_hold_every_line_once_however_the_bytes_arrive(monkeypatch, size):
    monkeypatch.setattr(line_stream, "READ_BYTES", size)
    lines = ["", "eins", "zwei €", "", "größer", "ohne Ende"]
    stream = io.BufferedReader(io.BytesIO("\n".join(lines).encode()))
    assert [line for chunk in chunks_of_lines(stream) for line in chunk] == lines


def test_a_large_input_is_read_in_large_chunks():
    stream = io.BufferedReader(io.BytesIO(b"line\n" * 100_000))
    chunks = [len(chunk) for chunk in chunks_of_lines(stream)]
    assert sum(chunks) == 100_000
    assert max(chunks) > 1000


def test_a_line_break_in_a_translation_does_not_shift_the_lines():
    assert one_line("a\nb\r\nc") == "a b  c"


def test_lines_are_written_at_once():
    raw = io.BytesIO()
    stream = io.BufferedWriter(raw)
    write_lines(stream, ["größe", ""])
    assert raw.getvalue() == "größe\n\n".encode()


def test_a_line_of_many_pieces_is_read_in_time_that_grows_with_its_length(monkeypatch):
    monkeypatch.setattr(line_stream, "READ_BYTES", 16)
    text = "x" * 1_000_000  # a copy of all pieces at each of them would take minutes
    stream = io.BufferedReader(io.BytesIO(f"{text}\n{text}".encode()), buffer_size=16)
    assert list(chunks_of_lines(stream)) == [[text], [text]]


def test_a_byte_order_mark_is_no_text():
    stream = io.BufferedReader(io.BytesIO("\ufeffeins\n\ufeffzwei\n".encode()))
    assert list(chunks_of_lines(stream)) == [["eins", "\ufeffzwei"]]

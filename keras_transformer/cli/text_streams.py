"""Lines in and lines out, as they arrive."""

import codecs
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import BinaryIO, TypeVar, cast

from tqdm import tqdm

from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import full_output
from keras_transformer.text.text_lines import check_line_length

READ_BYTES = 1 << 16
PIECE_CHARACTERS = 1 << 22  # most characters of a piece of lines, or of a single line
STANDARD_INPUT = "standard input"  # as errors call it

Line = TypeVar("Line", str, tuple[str, str])


def chunks_of_lines(stream: BinaryIO) -> Iterator[list[str]]:
    """Yield lists of the lines that have arrived on a buffered stream of UTF-8 text.

    A chunk is the result of one read: files come in large pieces, which batch well, and a line
    typed by hand or sent by a waiting program comes at once. An error comes after the lines before
    it.
    """
    number, length = 0, 0
    pieces: list[bytes] = []
    while data := _read(stream):
        pieces.append(data)
        length += len(data)
        if b"\n" in data:  # a line may be longer than many pieces
            *complete, rest = b"".join(pieces).split(b"\n")
            pieces, length = [rest], len(rest)
            yield from _decoded(complete, number)
            number += len(complete)
        check_line_length(f"Line {number + 1} of {STANDARD_INPUT}", length)
    if rest := b"".join(pieces):
        yield from _decoded([rest], number)


def write_lines(stream: BinaryIO, lines: Iterable[str]) -> None:
    """Write lines to a binary stream, such as `sys.stdout.buffer`, and flush it."""
    try:
        stream.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
        stream.flush()
    except BrokenPipeError:  # the reader has enough
        raise
    except OSError as error:
        raise full_output(error) from error


def next_piece(lines: Iterator[Line], most: int) -> list[Line]:
    """At most `most` of the next lines, or pairs of lines; fewer if they are very long."""
    piece: list[Line] = []
    characters = 0
    while len(piece) < most and characters < PIECE_CHARACTERS:
        line = next(lines, None)
        if line is None:
            break
        piece.append(line)
        characters += len(line) if isinstance(line, str) else sum(map(len, line))
    return piece


def line_bar(
    total: int | None, initial: int = 0, hide: bool = False, title: str | None = None
) -> tqdm:
    """A progress bar of lines on stderr, if that is a terminal; `title` stands before it."""
    disable = hide or not sys.stderr.isatty()
    return tqdm(total=total, initial=initial, unit=" lines", disable=disable, desc=title)


def _read(stream: BinaryIO) -> bytes:
    try:
        return cast(io.BufferedReader, stream).read1(READ_BYTES)  # as `sys.stdin.buffer` is
    except OSError as error:
        raise UserInputError(f"Cannot read {STANDARD_INPUT}: {error.strerror}") from error


def _decoded(lines: Sequence[bytes], lines_before: int) -> Iterator[list[str]]:
    """Yield the lines as one list of strings; at a broken line, yield those before it and raise."""
    decoded: list[str] = []
    if lines and not lines_before:
        lines = [lines[0].removeprefix(codecs.BOM_UTF8), *lines[1:]]
    for number, line in enumerate(lines, start=lines_before + 1):
        try:
            decoded.append(_text(line, f"Line {number} of {STANDARD_INPUT}"))
        except UserInputError:
            if decoded:
                yield decoded
            raise
    if decoded:
        yield decoded


def _text(line: bytes, place: str) -> str:
    check_line_length(place, len(line))
    try:
        return line.decode("utf-8").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{place} is not valid UTF-8 at byte {error.start + 1}") from error

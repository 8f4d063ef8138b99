"""Read bytes and lines from plain or gzip-compressed text files."""

import contextlib
import functools
import gzip
import io
import pathlib
import zlib
from collections.abc import Iterator, Sequence

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import open_input
from keras_transformer.types import PathLike

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 1 << 24  # longer lines indicate a device, a binary file or a gzip bomb


def one_line(text: str) -> str:
    """Replace line breaks, which a model with byte pieces can produce, with spaces."""
    return text.replace("\n", " ").replace("\r", " ")


def text_table(rows: Sequence[Sequence[str]], align: str) -> str:
    """Format rows of strings as a table, with each column as wide as its widest cell."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = (
        "  ".join(
            f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)
        )
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def text_lines(path: PathLike) -> Iterator[str]:
    r"""Read the lines of a UTF-8 text file one at a time.

    Only `\n` and `\r\n` end a line. Other Unicode line separators (U+2028, U+0085, vertical tab)
    stay in the text, consistent with line-counting tools such as `wc`.

    Args:
        path: a file or a pipe; decompressed if its name ends in `.gz`.

    Yields:
        The lines without line endings.

    Raises:
        UserInputError: the file is missing, empty or damaged, or a line is not UTF-8 or is longer
            than 16 MB. The error message includes the line number.
    """
    is_empty = True
    with open_bytes(path) as file:
        for number, line in enumerate(byte_lines(path, file), start=1):
            is_empty = False
            yield decode_line(path, number, line)
    if is_empty:
        raise UserInputError(f"{path} is empty")


def byte_lines(path: PathLike, file: io.BufferedIOBase, first: int = 1) -> Iterator[bytes]:
    """Yield the lines of an open file, including line endings; each line is limited to 16 MB.

    `path` and `first`, the number of the first line, are used only in error messages.
    """
    lines = iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=first):
        check_line_length(f"{path}, line {number}", len(line) - line.endswith(b"\n"))
        yield line


@contextlib.contextmanager
def open_bytes(path: PathLike) -> Iterator[io.BufferedIOBase]:
    """Open a file with `open_input`, and decompress it if its name ends in `.gz`."""
    with open_input(path) as file, decompressed(path, file) as text:
        yield text


@contextlib.contextmanager
def decompressed(path: PathLike, file: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """Yield an open file, decompressed if its name ends in `.gz`."""
    if pathlib.Path(path).suffix != ".gz":
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as text:
            yield text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserInputError(f"{path} is not a complete gzip file: {error}") from error


def check_line_length(place: str, num_bytes: int) -> None:
    """Reject a line longer than `MAX_LINE_BYTES` (without its ending); `place` names the line."""
    if num_bytes > MAX_LINE_BYTES:
        raise UserInputError(
            f"{place}: longer than {MAX_LINE_BYTES:,} bytes, the limit for a line of text."
        )


def decode_line(path: PathLike, number: int, line: bytes) -> str:
    """Decode a line without its line ending; `number` is the line number, counted from 1."""
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserInputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x} at column {error.start + 1})"
        ) from error

"""Text files, plain or gzip: their bytes and lines."""

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
MAX_LINE_BYTES = 1 << 24  # longer lines come from a device, a binary file or a gzip bomb


def one_line(text: str) -> str:
    """The text without line ends, which a model with byte pieces can produce."""
    return text.replace("\n", " ").replace("\r", " ")


def text_table(rows: Sequence[Sequence[str]], align: str) -> str:
    """Return rows of strings as a table whose columns are as wide as their widest cells."""
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

    Lines end only at `\n` or `\r\n`. Unicode's other line separators (U+2028, U+0085, vertical tab)
    stay in the text, as in tools that count lines like `wc`.

    Args:
        path: a file or a pipe; decompressed if its name ends in `.gz`.

    Yields:
        Lines without their line ends.

    Raises:
        UserInputError: the file is missing, empty or damaged, or a line is not UTF-8 or is longer
            than 16 MB. The error gives the line number.
    """
    is_empty = True
    with open_bytes(path) as file:
        for number, line in enumerate(byte_lines(path, file), start=1):
            is_empty = False
            yield decode_line(path, number, line)
    if is_empty:
        raise UserInputError(f"{path} is empty")


def byte_lines(path: PathLike, file: io.BufferedIOBase, first: int = 1) -> Iterator[bytes]:
    """Yield the lines of an open file with their line ends; at most 16 MB each.

    `path` and `first`, the number of the first line, are for error messages.
    """
    lines = iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=first):
        check_line_length(f"{path}, line {number}", len(line) - line.endswith(b"\n"))
        yield line


@contextlib.contextmanager
def open_bytes(path: PathLike) -> Iterator[io.BufferedIOBase]:
    """Open a file with `open_input`; it is decompressed if its name ends in `.gz`."""
    with open_input(path) as file, decompressed(path, file) as text:
        yield text


@contextlib.contextmanager
def decompressed(path: PathLike, file: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """The content of an open file, decompressed if the name ends in `.gz`."""
    if pathlib.Path(path).suffix != ".gz":
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as text:
            yield text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserInputError(f"{path} is not a complete gzip file: {error}") from error


def check_line_length(place: str, num_bytes: int) -> None:
    """Refuse a line of more than `MAX_LINE_BYTES`, without its end; `place` names the line."""
    if num_bytes > MAX_LINE_BYTES:
        raise UserInputError(
            f"{place}: longer than {MAX_LINE_BYTES:,} bytes, the limit for a line of text."
        )


def decode_line(path: PathLike, number: int, line: bytes) -> str:
    """The text of a line without its end; `number` counts from 1."""
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserInputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x} at column {error.start + 1})"
        ) from error

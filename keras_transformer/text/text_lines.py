"""Text files, plain or gzip: their bytes and lines."""

import contextlib
import functools
import gzip
import io
import pathlib
import zlib
from collections.abc import Iterator

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_input
from keras_transformer.types import PathLike

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 1 << 24  # longer lines are not text: a device, a binary file, a gzip bomb


def one_line(text: str) -> str:
    """The text without the ends of lines, which a model with byte pieces can produce."""
    return text.replace("\n", " ").replace("\r", " ")


def text_lines(path: PathLike) -> Iterator[str]:
    r"""Read the lines of a UTF-8 text file one at a time.

    Lines end only at `\n` or `\r\n`: Unicode's other line separators (U+2028, U+0085, vertical
    tab) stay in the text, as for every tool that counts lines like `wc`.

    Args:
        path: a file or a pipe; one whose name ends in `.gz` is decompressed.

    Yields:
        Lines without their ends.

    Raises:
        UserInputError: the file is missing, empty or damaged, or a line, whose number is given, is
            not UTF-8 or longer than 16 MB.
    """
    is_empty = True
    with open_bytes(path) as file:
        for number, line in enumerate(byte_lines(path, file), start=1):
            is_empty = False
            yield decode_line(path, number, line)
    if is_empty:
        raise UserInputError(f"{path} is empty")


def byte_lines(path: PathLike, file: io.BufferedIOBase, first: int = 1) -> Iterator[bytes]:
    """Yield the lines of an open file with their ends, none longer than 16 MB.

    `path` and `first`, the number of the first line, are for the error.
    """
    lines = iter(functools.partial(file.readline, MAX_LINE_BYTES + 1), b"")
    for number, line in enumerate(lines, start=first):
        check_line_length(f"{path}, line {number}", len(line) - line.endswith(b"\n"))
        yield line


@contextlib.contextmanager
def open_bytes(path: PathLike) -> Iterator[io.BufferedIOBase]:
    """Open a file with `open_input`; one whose name ends in `.gz` is decompressed."""
    with open_input(path) as file, decompressed(path, file) as text:
        yield text


@contextlib.contextmanager
def decompressed(path: PathLike, file: io.BufferedIOBase) -> Iterator[io.BufferedIOBase]:
    """The content of an open file: decompressed if the name ends in `.gz`, else as it is."""
    if pathlib.Path(path).suffix != ".gz":
        yield file
        return
    try:
        with gzip.GzipFile(fileobj=file) as text:
            yield text
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserInputError(f"{path} is not a whole gzip file: {error}") from error


def check_line_length(place: str, num_bytes: int) -> None:
    """Refuse a line of more than `MAX_LINE_BYTES`, not counting its end; `place` names it."""
    if num_bytes > MAX_LINE_BYTES:
        raise UserInputError(
            f"{place}: longer than {MAX_LINE_BYTES:,} bytes, the limit of a line of text."
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

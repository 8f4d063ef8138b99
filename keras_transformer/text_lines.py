"""Text files, plain or gzip: their bytes and lines, and one clear sentence for every fault."""

import contextlib
import gzip
import pathlib
import zlib

from keras_transformer.errors import UserInputError

BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def text_lines(path):
    r"""Read the lines of a UTF-8 text file one after another, never all at once.

    Lines end at `\n` or `\r\n` alone: line separators that Unicode has besides (U+2028, U+0085,
    vertical tab) stay in the text, as they do for every tool that counts lines with `wc`.

    Args:
        path: a file; one whose name ends in `.gz` is decompressed.

    Yields:
        Strings without line ends.

    Raises:
        UserInputError: the file is missing, empty, damaged, or not UTF-8 (with the line's number).
    """
    number = 0
    with open_bytes(path) as file:
        for number, line in enumerate(file, start=1):
            yield _decode(path, number, line)
    if not number:
        raise UserInputError(f"{path} is empty")


@contextlib.contextmanager
def open_bytes(path):
    """Open a file of bytes, and say in one line what is wrong with it.

    Args:
        path: a file; one whose name ends in `.gz` is decompressed.

    Yields:
        The file, opened for reading.

    Raises:
        UserInputError: the file is missing or damaged, also when that shows while it is read.
    """
    open_file = gzip.open if pathlib.Path(path).suffix == ".gz" else open
    try:
        with open_file(path, "rb") as file:
            yield file
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserInputError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror or error}") from error


def _decode(path, number, line):
    if number == 1:
        line = line.removeprefix(BYTE_ORDER_MARK)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserInputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x} at column {error.start + 1})"
        ) from error

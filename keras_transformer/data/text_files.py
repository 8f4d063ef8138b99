"""Text files, one sentence a line, plain or gzip: finding and reading them, alone and in pairs."""

import gzip
import pathlib
import zlib

from keras_transformer.errors import UserInputError

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def find_text(directory, stem):
    """Find `stem` or `stem.gz` in a directory.

    Args:
        directory: where to look.
        stem: the file's name, such as `"train.en"`.

    Returns:
        A `pathlib.Path`; the plain file if both are there.

    Raises:
        UserInputError: neither is there.
    """
    directory = pathlib.Path(directory)
    for name in (stem, f"{stem}.gz"):
        if (directory / name).is_file():
            return directory / name
    raise UserInputError(f"Neither {stem} nor {stem}.gz is in {directory}")


def read_text(path):
    r"""Read the lines of a UTF-8 text file.

    Lines end at `\n` or `\r\n` alone: line separators that Unicode has besides (U+2028, U+0085,
    vertical tab) stay in the text, as they do for every tool that counts lines with `wc`.

    Args:
        path: a file; one whose name ends in `.gz` is decompressed.

    Returns:
        A list of strings without line ends.

    Raises:
        UserInputError: the file is missing, empty, damaged, or not UTF-8 (with the line's number).
    """
    path = pathlib.Path(path)
    open_file = gzip.open if path.suffix == ".gz" else open
    try:
        with open_file(path, "rb") as file:
            lines = [_decode(path, number, line) for number, line in enumerate(file, start=1)]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise UserInputError(f"{path} is not a whole gzip file: {error}") from error
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror or error}") from error
    if not lines:
        raise UserInputError(f"{path} is empty")
    return lines


def read_parallel_text(source_path, target_path):
    """Read two text files whose lines with the same number are translations of each other.

    Args:
        source_path: file of source sentences, plain or `.gz`.
        target_path: file of target sentences, plain or `.gz`.

    Returns:
        Two lists of strings of the same length: sources and targets.

    Raises:
        UserInputError: as `read_text`, or the files differ in their number of lines.
    """
    sources, targets = read_text(source_path), read_text(target_path)
    if len(sources) != len(targets):
        raise UserInputError(
            f"Parallel files must have the same number of lines: {source_path} has "
            f"{len(sources)}, {target_path} has {len(targets)}"
        )
    return sources, targets


def _decode(path, number, line):
    if number == 1:
        line = line.removeprefix(_BYTE_ORDER_MARK)
    try:
        return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        raise UserInputError(
            f"{path}, line {number}: not UTF-8 (byte 0x{byte:02x} at column {error.start + 1})"
        ) from error

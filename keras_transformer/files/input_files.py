"""Opening files for reading: inputs that a user names, and files of runs and exports."""

import contextlib
import errno
import io
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.types import PathLike


@contextlib.contextmanager
def open_input(path: PathLike) -> Iterator[io.BufferedReader]:
    """Open a file, a pipe or a device that a user names, to read bytes.

    Errors are `UserInputError`s, even errors while reading.
    """
    with reading(path), open(path, "rb") as file:
        yield file


def read_input(path: PathLike, most_bytes: int) -> bytes:
    """Return the content of an input of at most `most_bytes`; larger inputs are refused.

    The input may be in an untrusted folder: a pipe without a writer reads as empty.
    """
    with reading(path), open(path, "rb", opener=_open_at_once) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserInputError(f"{path} must have at most {most_bytes:,} bytes.")
    return content


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Turn an `OSError` into a `UserInputError` that names the file and the reason."""
    try:
        yield
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror or error}") from error


def _open_at_once(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    os.set_blocking(descriptor, True)
    return descriptor


def entries_of(directory: PathLike) -> list[Path]:
    """Return the paths in a directory, sorted; none if it is missing.

    Unlike `Path.glob`, which finds nothing in a directory that cannot be read.

    Raises:
        UserInputError: the directory cannot be read.
    """
    with reading(directory):
        try:
            return sorted(Path(directory).iterdir())
        except FileNotFoundError:
            return []


def is_read_once(path: PathLike) -> bool:
    """Whether an input can be read only once: a pipe or a device."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # reported when the file is opened
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_ordinary(path: PathLike) -> io.BufferedReader:
    """Open a file of a run or an export, to read bytes.

    It must be a regular file or a link to a regular file, since a pipe or a device could hang.
    Anything else raises an `OSError`.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # has no effect on regular files
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))

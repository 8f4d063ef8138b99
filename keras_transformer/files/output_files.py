"""Where a user's `--output` goes: one rule for files, links, pipes and devices.

Regular files appear whole: they are written beside their name and renamed. Links are followed.
Pipes and devices are written to, never replaced.
"""

import contextlib
import errno
import io
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import write_bytes, writing
from keras_transformer.types import PathLike

READER_SECONDS = 10  # how long to wait for a reader of a named pipe
_POLL_SECONDS = 0.05


class Output(NamedTuple):
    """The path to write to, with links resolved, and whether it is a pipe or a device."""

    path: Path
    is_stream: bool


def find_output(path: PathLike, flag: str = "--output") -> Output:
    """Return the `Output` of a user's file, which must be in a folder that exists.

    Errors name the flag that it was given to.
    """
    name = os.fspath(path)
    if not name or name.endswith(os.sep) or os.path.isdir(name):
        raise UserInputError(f"`{flag}` must be a file. Received: {name!r}")
    try:
        status = os.stat(name)
    except FileNotFoundError:
        status = None
    except OSError as error:
        raise UserInputError(f"Cannot write {name}: {error.strerror}.") from error
    if status is not None and not stat.S_ISREG(status.st_mode):
        return Output(Path(name), is_stream=True)
    if status is not None and _is_standard_output(status):
        raise UserInputError(f"`{flag}` must not be the file of standard output: {name}")
    found = Path(os.path.realpath(name))
    if not found.parent.is_dir():
        raise UserInputError(f"`{flag}` must be in a folder that exists. Received: {name!r}")
    return Output(found, is_stream=False)


@contextlib.contextmanager
def open_stream(path: PathLike) -> Iterator[io.FileIO]:
    """Open an existing pipe or device for writing bytes, unbuffered."""
    with writing(path), os.fdopen(_descriptor(path), "wb", buffering=0) as file:
        yield file


def write_output(path: PathLike, content: str | bytes, flag: str = "--output") -> None:
    """Write text or bytes to a user's file; errors as for `find_output` and `open_stream`."""
    output = find_output(path, flag)
    content = content.encode("utf-8") if isinstance(content, str) else content
    if not output.is_stream:
        write_bytes(output.path, content)
        return
    with open_stream(output.path) as file:
        write_all(file, content)


def write_all(file: io.FileIO, content: bytes) -> None:
    """Write bytes to an unbuffered file, which may take them in parts, as on a full disk."""
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _descriptor(path: PathLike) -> int:
    deadline = time.monotonic() + READER_SECONDS
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY)
        except OSError as error:
            if error.errno != errno.ENXIO or not stat.S_ISFIFO(os.stat(path).st_mode):
                raise
            if time.monotonic() > deadline:
                raise UserInputError(
                    f"Cannot write {path}: it is a pipe, and nobody opened it for reading within "
                    f"{READER_SECONDS} seconds."
                ) from error
            time.sleep(_POLL_SECONDS)
        else:
            os.set_blocking(descriptor, True)
            return descriptor


def _is_standard_output(status: os.stat_result) -> bool:
    with contextlib.suppress(OSError):
        return os.path.samestat(status, os.fstat(1))
    return False

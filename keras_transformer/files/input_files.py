"""Opening the user's inputs: files, pipes and devices, but not directories."""

import contextlib
import errno
import io
import os
import stat
import threading
from collections.abc import Iterator

from keras_transformer.errors import UserInputError
from keras_transformer.types import PathLike

WRITER_SECONDS = 10  # how long to wait for a writer of a pipe


@contextlib.contextmanager
def open_input(path: PathLike) -> Iterator[io.BufferedReader]:
    """Open a file, a pipe or a character device for reading bytes.

    Errors, also those while it is read and of a pipe without a writer, are `UserInputError`s.
    """
    try:
        with os.fdopen(_descriptor(path), "rb") as file:
            yield file
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror or error}") from error


def read_input(path: PathLike, most_bytes: int) -> bytes:
    """Return the content of an input of at most `most_bytes`; larger ones are refused."""
    with open_input(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserInputError(f"{path} must have at most {most_bytes:,} bytes.")
    return content


def is_read_once(path: PathLike) -> bool:
    """Whether an input can be read only once: a pipe or a device."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # reported when it is opened
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _descriptor(path: PathLike) -> int:
    if stat.S_ISFIFO(os.stat(path).st_mode):
        return _open_pipe(path)
    # Without blocking: a pipe may have replaced the file since then.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if stat.S_ISBLK(mode):
            raise OSError(errno.EINVAL, "it is a block device")
        os.set_blocking(descriptor, True)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _open_pipe(path: PathLike) -> int:
    """Open a pipe once it has a writer.

    Only a blocking call tells a silent writer from a missing one, so a thread makes it.
    """
    results: list[int | OSError] = []
    thread = threading.Thread(target=_wait_for_writer, args=(path, results), daemon=True)
    thread.start()
    thread.join(WRITER_SECONDS)
    if thread.is_alive():
        with contextlib.suppress(OSError):  # opening the other end for a moment ends the thread
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        raise UserInputError(
            f"Cannot read {path}: it is a pipe, and nobody opened it for writing within "
            f"{WRITER_SECONDS} seconds."
        )
    (result,) = results
    if isinstance(result, OSError):
        raise result
    return result


def _wait_for_writer(path: PathLike, results: list[int | OSError]) -> None:
    try:
        results.append(os.open(path, os.O_RDONLY))
    except OSError as error:
        results.append(error)

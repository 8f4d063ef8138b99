"""Opening what a user named for reading: files, pipes and devices, never directories."""

import contextlib
import errno
import os
import stat
import threading

from keras_transformer.errors import UserInputError

WRITER_SECONDS = 10  # how long a pipe may have no writer


@contextlib.contextmanager
def open_input(path):
    """Open a file, a pipe or a character device for reading bytes, and say what is wrong with it.

    The `UserInputError` may also come while it is read, and where nobody writes to the pipe.
    """
    try:
        with os.fdopen(_descriptor(path), "rb") as file:
            yield file
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror or error}") from error


def read_input(path, most_bytes):
    """Return the bytes of what `open_input` opens; `UserInputError` where there are more."""
    with open_input(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserInputError(f"{path} must have at most {most_bytes:,} bytes.")
    return content


def is_read_once(path):
    """Whether what is there can be read once only: a pipe or a device, no file."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # told when it is opened
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _descriptor(path):
    if stat.S_ISFIFO(os.stat(path).st_mode):
        return _open_pipe(path)
    # A pipe that took the file's place since then must not hold us up.
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


def _open_pipe(path):
    """Open a pipe once it has a writer.

    Only a call that waits tells a writer that has nothing to say yet from none at all: it waits in
    a thread of its own, which this one can leave.
    """
    results = []
    thread = threading.Thread(target=_wait_for_writer, args=(path, results), daemon=True)
    thread.start()
    thread.join(WRITER_SECONDS)
    if thread.is_alive():
        with contextlib.suppress(OSError):  # the other end, opened for a moment, lets it go
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
        raise UserInputError(
            f"Cannot read {path}: it is a pipe, and nobody opened it for writing within "
            f"{WRITER_SECONDS} seconds."
        )
    (result,) = results
    if isinstance(result, OSError):
        raise result
    return result


def _wait_for_writer(path, results):
    try:
        results.append(os.open(path, os.O_RDONLY))
    except OSError as error:
        results.append(error)

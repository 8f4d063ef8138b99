"""Opening the files of a run or an export, which must be regular: a pipe or device could hang."""

import errno
import io
import os
import stat

from keras_transformer.types import PathLike


def open_ordinary(path: PathLike) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading bytes; others raise an `OSError`."""
    return open(path, "rb", opener=_open)


def _open(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # without effect on regular files
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))

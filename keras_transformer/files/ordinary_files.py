"""Files of a run or an export, which are ordinary ones: no pipe, no device, no directory."""

import errno
import os
import stat


def open_ordinary(path):
    """Open a regular file, or a link to one, for reading bytes; OSError for anything else.

    A pipe would wait for its writer, and a device might never end.
    """
    return open(path, "rb", opener=_open)


def _open(path, flags):
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # of an ordinary file that changes nothing
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is no ordinary file", str(path))

"""One process at a time, on one machine or on several that share a file system."""

import contextlib
import fcntl
import os


@contextlib.contextmanager
def file_lock(path, on_wait):
    """Hold a lock that no other process holds; it goes with the process, however that ends.

    The file `path` stands for the lock, and is removed in the end. `on_wait` is called before
    waiting for another process; what it raises ends the call. Yields True, or False where the file
    system has no locks: then nothing keeps others out.
    """
    file, locked = _locked_file(path, on_wait)
    with file:
        try:
            yield locked
        finally:
            # Before the lock is given up: who waits sees that its file is gone, and makes another.
            if locked:
                remove_lock(path)


def remove_lock(path):
    """Remove a lock's file; where it cannot be, as on a disk that is now read-only, it stays."""
    with contextlib.suppress(OSError):
        path.unlink()


def _locked_file(path, on_wait):
    while True:
        file = open(path, "a", opener=_open_no_link)  # noqa: SIM115 - the caller closes it
        try:
            _lock(file, on_wait)
        except OSError:
            return file, False
        except BaseException:
            file.close()
            raise
        if _is_named(file, path):
            return file, True
        file.close()


def _lock(file, on_wait):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(file, fcntl.LOCK_EX)


def _open_no_link(path, flags):
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _is_named(file, path):
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False

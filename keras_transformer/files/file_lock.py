"""Locks between processes, on one machine or on machines that share a file system."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout


@contextlib.contextmanager
def file_lock(path: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Hold an exclusive lock; the system releases it when the process ends for any reason.

    The file `path` represents the lock and is removed at the end. `on_wait` is called before
    waiting for another process; it may raise an error to give up. Yields whether the system holds
    the lock. On a file system without locks, the file itself is the lock: `filelock` writes it and
    compares it with the running processes.
    """
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        on_wait()
        lock.acquire()
    is_native = not isinstance(lock, SoftFileLock)
    try:
        yield is_native
    finally:
        # Remove the file while locked: a waiting process then sees that it is gone, and retries.
        if is_native:
            with contextlib.suppress(OSError):  # e.g. if the disk is now read-only
                path.unlink()
        lock.release()

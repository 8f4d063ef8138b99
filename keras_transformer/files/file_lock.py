"""Locks between processes, on one machine or on several that share a file system."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout


@contextlib.contextmanager
def file_lock(path: Path, on_wait: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Hold an exclusive lock, which the system releases when the process ends, however it ends.

    The file `path` stands for the lock and is removed at the end. `on_wait` is called before
    waiting for another process, and may raise to give up. Yields whether the system has the lock:
    on a file system without locks it is the file, which `filelock` writes and compares with the
    living processes.
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
        # While still locked: a waiting process then sees that the file is gone and retries.
        if is_native:
            with contextlib.suppress(OSError):  # e.g. if the disk is now read-only
                path.unlink()
        lock.release()

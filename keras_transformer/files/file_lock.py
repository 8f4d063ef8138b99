"""Locks between processes, on one machine or on several that share a file system."""

import contextlib
import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO


@contextlib.contextmanager
def file_lock(path: Path, on_wait: Callable[[], object]) -> Iterator[bool]:
    """Hold an exclusive lock, which the system releases when the process ends, however it ends.

    The file `path` stands for the lock and is removed at the end. `on_wait` is called before
    waiting for another process, and may raise to give up. Yields True, or False where the file
    system lacks locks: others are not kept out then.
    """
    file, locked = _locked_file(path, on_wait)
    with file:
        try:
            yield locked
        finally:
            # While still locked: a waiting process then sees that the file is gone and retries.
            if locked:
                remove_lock(path)


def remove_lock(path: Path) -> None:
    """Remove the file of a lock if possible, e.g. unless the disk is now read-only."""
    with contextlib.suppress(OSError):
        path.unlink()


def _locked_file(path: Path, on_wait: Callable[[], object]) -> tuple[IO[str], bool]:
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


def _lock(file: IO[str], on_wait: Callable[[], object]) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        on_wait()
        fcntl.flock(file, fcntl.LOCK_EX)


def _open_no_link(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o666)


def _is_named(file: IO[str], path: Path) -> bool:
    """Whether an open file still has its name."""
    try:
        return os.path.samestat(os.fstat(file.fileno()), path.stat())
    except FileNotFoundError:
        return False

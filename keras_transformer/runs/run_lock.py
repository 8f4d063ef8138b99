"""One training at a time in a run directory."""

import contextlib
import datetime
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock
from keras_transformer.files.whole_files import writing
from keras_transformer.types import PathLike

LOCK_NAME = ".training.lock"


@contextlib.contextmanager
def run_lock(path: PathLike) -> Iterator[None]:
    """Keep other trainings out of a run directory; creates the directory if it is missing.

    The operating system holds the lock and releases it when the process ends for any reason. The
    lock also works between machines if the file system supports that, as NFS does. The lock file
    names the process that holds the directory. On a file system without locks, the file itself is
    the lock.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "first"
        >>> with run_lock(path):
        ...     [path.name for path in path.iterdir()]
        ['.training.lock']
    """
    path = Path(path)
    if path.exists() and not path.is_dir():  # reported when the run is opened
        yield
        return
    lock = path / LOCK_NAME
    with contextlib.ExitStack() as stack:
        with writing(path):
            for directory in _missing(path):
                directory.mkdir(exist_ok=True)
                stack.callback(_remove_empty, directory)
            if stack.enter_context(file_lock(lock, on_wait=lambda: _refuse(path, lock))):
                lock.write_text(f"{os.getpid()}\n{socket.gethostname()}\n", encoding="utf-8")
        yield


def _missing(path: Path) -> list[Path]:
    """The directories to create, outermost first."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    return missing[::-1]


def _remove_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):  # it is not empty, or is gone
        directory.rmdir()


def _refuse(path: Path, lock: Path) -> NoReturn:
    raise UserInputError(
        f"The run directory {path} is in use by a training: {_holder(lock)}. Wait for its end, or "
        "choose another directory."
    )


def _holder(lock: Path) -> str:
    """The process that the lock file names."""
    try:
        process, machine, *_ = lock.read_text(encoding="utf-8").splitlines()
        since = datetime.datetime.fromtimestamp(lock.stat().st_mtime).astimezone()
    except (OSError, ValueError):  # the file is being written
        return "another process"
    return f"process {process} on {machine} since {since.isoformat(timespec='seconds')}"

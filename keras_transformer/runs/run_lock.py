"""One training at a time in a run directory."""

import contextlib
import datetime
import json
import os
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock, remove_lock
from keras_transformer.files.json_files import read_record
from keras_transformer.files.whole_files import writing
from keras_transformer.types import PathLike

LOCK_NAME = ".training.lock"


@contextlib.contextmanager
def run_lock(path: PathLike) -> Iterator[None]:
    """Keep other trainings out of a run directory, which is made if need be.

    The lock is the operating system's and is released when the process ends, however it ends. It
    also holds between machines where the file system passes locks on, as NFS does. On a file
    system without locks a file names the process that holds the directory.

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
            locked = stack.enter_context(file_lock(lock, on_wait=lambda: _refuse(path, lock)))
            if not locked:
                _refuse_living(path, lock)
                stack.callback(remove_lock, lock)
            lock.write_text(json.dumps(_holder()) + "\n", encoding="utf-8")
        yield


def _missing(path: Path) -> list[Path]:
    """The directories to make, the outermost first."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    return missing[::-1]


def _remove_empty(directory: Path) -> None:
    with contextlib.suppress(OSError):  # it is not empty, or was removed
        directory.rmdir()


def _holder() -> dict[str, str | int]:
    return {
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "since": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _read_holder(lock: Path) -> dict[str, str | int]:
    """The process that wrote the lock's file, or an empty dictionary."""
    try:
        return read_record(lock, dict[str, str | int])
    except UserInputError:  # it is being written
        return {}


def _refuse(path: Path, lock: Path, advice: str = "") -> None:
    holder = _read_holder(lock)
    who = "another process"
    if holder.keys() >= {"process", "machine", "since"}:
        who = "process {process} on {machine} since {since}".format_map(holder)
    raise UserInputError(
        f"The run directory {path} is in use by a training: {who}. Wait for its end, or choose "
        f"another directory.{advice}"
    )


def _refuse_living(path: Path, lock: Path) -> None:
    """On a file system without locks, refuse if the holder named in the file may be running."""
    holder = _read_holder(lock)
    ours = holder.get("machine") == socket.gethostname()
    if not holder or holder.get("process") == os.getpid() or (ours and not _lives(holder)):
        return
    _refuse(path, lock, f" Its file system has no locks: if that process has ended, remove {lock}.")


def _lives(holder: Mapping[str, str | int]) -> bool:
    """Whether a process of this machine is running."""
    try:
        os.kill(int(holder["process"]), 0)
    except (ProcessLookupError, OverflowError, ValueError, KeyError):
        return False
    except PermissionError:
        pass
    return True

"""One training at a time in a run directory."""

import contextlib
import datetime
import json
import os
import socket
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.file_lock import file_lock, remove_lock
from keras_transformer.files.json_files import read_record
from keras_transformer.files.whole_files import writing

LOCK_NAME = ".training.lock"


@contextlib.contextmanager
def run_lock(path):
    """Hold a run directory, which is made if need be: meanwhile no other training has it.

    The lock is the operating system's and goes with the process, however that ends. It also keeps
    out processes of other machines where the file system passes locks on, as NFS does. Where it has
    none, a file says who holds the directory.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp()) / "first"
        >>> with run_lock(path):
        ...     [path.name for path in path.iterdir()]
        ['.training.lock']
    """
    path = Path(path)
    if path.exists() and not path.is_dir():  # whoever opens the run says so
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


def _missing(path):
    """The directories to make, the outermost first."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    return missing[::-1]


def _remove_empty(directory):
    with contextlib.suppress(OSError):  # it holds something, or is gone
        directory.rmdir()


def _holder():
    return {
        "process": os.getpid(),
        "machine": socket.gethostname(),
        "since": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
    }


def _read_holder(lock):
    """Who wrote the lock's file, or an empty dictionary."""
    try:
        return read_record(lock, dict[str, str | int])
    except UserInputError:  # it is being written
        return {}


def _refuse(path, lock, advice=""):
    holder = _read_holder(lock)
    who = "another process"
    if holder.keys() >= {"process", "machine", "since"}:
        who = "process {process} on {machine} since {since}".format_map(holder)
    raise UserInputError(
        f"The run directory {path} is in use by a training: {who}. Wait for its end, or choose "
        f"another directory.{advice}"
    )


def _refuse_living(path, lock):
    """Where the file system has no locks: refuse what may be living by what the file says."""
    holder = _read_holder(lock)
    ours = holder.get("machine") == socket.gethostname()
    if not holder or holder.get("process") == os.getpid() or (ours and not _lives(holder)):
        return
    _refuse(path, lock, f" Its file system has no locks: if there is none any more, remove {lock}.")


def _lives(holder):
    """Whether a process of this machine is there."""
    try:
        os.kill(int(holder["process"]), 0)
    except (ProcessLookupError, OverflowError, ValueError, KeyError):
        return False
    except PermissionError:
        pass
    return True

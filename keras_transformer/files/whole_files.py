"""Files and directories that appear whole or not at all.

They are written beside their name, synced to disk and renamed.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import shutil
import tempfile
from pathlib import Path

from keras_transformer.errors import CannotWrite

# What a killed process may leave behind of a file that it was writing.
LEFT_OVER = (".partial-*", ".candidate-*", "*.partial")
PARTIAL_DIRECTORY = ".partial-directory-"


@contextlib.contextmanager
def whole_file(path, before_rename=None):
    """Give the name of a file to write, which takes its place at `path` when it is complete.

    It is on the disk, not only on its way there, before it gets its name: neither a kill nor a
    power cut leaves half a file. If writing fails, what is there of it is removed.

    Args:
        path: where the file goes; what stood there stays until then.
        before_rename: function that gets the complete file, such as one that keeps its checksum.

    Yields:
        The `Path` to write to, in the same directory.

    Raises:
        CannotWrite: the disk is full, or another error of the operating system.

    Example:
        >>> with whole_file("runs/first/scores.json") as partial:  # doctest: +SKIP
        ...     partial.write_text("{}")
    """
    path = Path(path)
    partial = path.with_name(f".partial-{path.name}")
    with writing(path):
        try:
            yield partial
            sync(partial)
            if before_rename is not None:
                before_rename(partial)
            os.replace(partial, path)
            with contextlib.suppress(OSError):  # not every file system syncs directories
                sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def write_directory(parent, choose_name, write):
    """Write a directory that appears whole, and never in place of one that holds anything.

    What killed processes left of theirs in `parent` is removed; what others are writing stays.

    Args:
        parent: where the directory goes; made where it is missing.
        choose_name: function without arguments that returns its name. It is called before anything
            is written, and anew as long as another process takes the name first: it may raise.
        write: function that gets the `Path` of an empty directory and fills it.

    Returns:
        The `Path` of the directory.

    Raises:
        CannotWrite: the disk is full, or another error of the operating system; or `choose_name`
            gave a name that is taken twice.

    Example:
        >>> write_directory("saved_models", lambda: "en_de", write)  # doctest: +SKIP
        PosixPath('saved_models/en_de')
    """
    parent = Path(parent)
    name = choose_name()
    with writing(parent / name):
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        with _partial_directory(parent) as partial:
            write(partial)
            for path in [*partial.rglob("*"), partial]:
                sync(path)
            while not _take_name(partial, parent / name):
                taken, name = name, choose_name()
                if name == taken:
                    raise CannotWrite(f"Cannot write {parent / name}: something is there.")
        with contextlib.suppress(OSError):  # not every file system syncs directories
            sync(parent)
    return parent / name


def _take_name(partial, path):
    """Rename a directory, unless a file or a directory with anything in it has that name."""
    try:
        os.rename(partial, path)
    except OSError as error:
        if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
            return False
        raise
    return True


@contextlib.contextmanager
def _partial_directory(parent):
    """Give an empty directory that `_remove_abandoned` leaves alone; remove it if it stays."""
    while True:
        partial = Path(tempfile.mkdtemp(prefix=PARTIAL_DIRECTORY, dir=parent))
        try:
            descriptor = os.open(partial, os.O_RDONLY)
        except FileNotFoundError:  # another process took it for abandoned: it was not locked yet
            continue
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until the process ends, however it ends
        if partial.is_dir():
            break
        os.close(descriptor)
    try:
        partial.chmod(0o755)  # not a temporary directory's: servers run as other users
        yield partial
    finally:
        os.close(descriptor)
        shutil.rmtree(partial, ignore_errors=True)


def _remove_abandoned(parent):
    """Remove the partial directories in `parent` that no living process is writing."""
    for path in parent.glob(f"{PARTIAL_DIRECTORY}*"):
        with contextlib.suppress(OSError):  # another one is faster, or the file system has no locks
            descriptor = os.open(path, os.O_RDONLY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


@contextlib.contextmanager
def writing(path):
    """Turn an `OSError` into a `CannotWrite` that names the file and the reason."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        # HDF5 puts a page of details into its message.
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        raise CannotWrite(f"Cannot write {path}: {reason}.") from error


def sync(path):
    """Wait until a file, or the names in a directory, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path, text):
    """Write a text file as `whole_file` does, so that no reader ever sees half a file."""
    with whole_file(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def write_json(path, value):
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def copy_file(source, destination):
    """Copy a file, whole or not at all."""
    with whole_file(destination) as partial:
        shutil.copyfile(source, partial)


def checksum(path):
    """Return the SHA-256 of a file's bytes, in hexadecimal."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_left_over(directory):
    """Remove what a killed process left of files that it was writing."""
    for pattern in LEFT_OVER:
        for path in Path(directory).glob(pattern):
            path.unlink(missing_ok=True)

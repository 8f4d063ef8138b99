"""Files and directories that appear whole or not at all.

They are written beside their name, synced to disk and renamed.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import secrets
import shutil
import tempfile
from pathlib import Path

from keras_transformer.errors import CannotWrite
from keras_transformer.files.ordinary_files import open_ordinary

# What a killed process may leave behind of a file that it was writing.
PARTIAL = ".partial-"
LEFT_OVER = (f"{PARTIAL}*", ".candidate-*", "*.partial")
PARTIAL_DIRECTORY = f"{PARTIAL}directory-"


@contextlib.contextmanager
def whole_file(path, before_rename=None):
    """Give a file to write, which takes its place at `path` when it is complete.

    It is on the disk, not only on its way there, before it gets its name: neither a kill nor a
    power cut leaves half a file. If writing fails, what is there of it is removed. Until then it
    has a name that nobody can know before: a link planted there is not followed. A link at `path`
    is replaced. `before_rename` gets the `Path` of the complete file, such as to keep its checksum.

    Example:
        >>> path = Path(tempfile.mkdtemp()) / "scores.json"
        >>> with whole_file(path) as file:
        ...     _ = file.write(b"{}")
        >>> path.read_text()
        '{}'
    """
    path = Path(path)
    with writing(path):
        file = open(_new_name(path.parent), "xb")  # noqa: SIM115 - closed before it is renamed
        partial = Path(file.name)
        try:
            with file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if before_rename is not None:
                before_rename(partial)
            os.replace(partial, path)
            with contextlib.suppress(OSError):  # not every file system syncs directories
                sync(path.parent)
        finally:
            partial.unlink(missing_ok=True)


def _new_name(directory):
    """A name that nobody can know before; a file is made exclusively under it, never opened."""
    return directory / f"{PARTIAL}{secrets.token_hex(16)}"


def write_directory(parent, choose_name, write):
    """Write a directory that appears whole, and never in place of one that holds anything.

    What killed processes left of theirs in `parent` is removed; what others are writing stays.
    `write` fills an empty directory. `choose_name` is called before anything is written, and anew
    as long as another process takes the name first: it may raise.

    Example:
        >>> parent = tempfile.mkdtemp()
        >>> def write(directory):
        ...     write_text(directory / "README.md", "A model")
        >>> [path.name for path in write_directory(parent, lambda: "en_de", write).iterdir()]
        ['README.md']
    """
    parent = Path(parent)
    name = choose_name()
    with writing(parent / name):
        parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(parent)
        with _partial_directory(parent) as partial:
            try:
                write(partial)
            except CannotWrite as error:  # names what is about to be removed
                message = str(error).replace(str(partial), str(parent / name))
                raise CannotWrite(message) from error
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


def write_text(path, text, before_rename=None):
    """Write a text file as `whole_file` does, so that no reader ever sees half a file."""
    write_bytes(path, text.encode("utf-8"), before_rename)


def write_json(path, value, before_rename=None):
    """Write a value as indented JSON, whole or not at all."""
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n", before_rename)


def write_bytes(path, content, before_rename=None):
    """Write bytes, or a buffer of them, whole or not at all."""
    with whole_file(path, before_rename) as file:
        file.write(content)


def copy_file(source, destination, before_rename=None):
    """Copy a file, whole or not at all."""
    with open_ordinary(source) as original, whole_file(destination, before_rename) as copy:
        shutil.copyfileobj(original, copy)


def checksum(path):
    """Return the SHA-256 of a file's bytes, in hexadecimal; OSError as of `open_ordinary`."""
    with open_ordinary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_left_over(directory):
    """Remove what a killed process left of files that it was writing."""
    for pattern in LEFT_OVER:
        for path in Path(directory).glob(pattern):
            if not path.is_dir() or path.is_symlink():
                path.unlink(missing_ok=True)

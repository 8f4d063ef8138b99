"""Files that appear whole or not at all: written beside their name, synced to disk and renamed."""

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path

from keras_transformer.errors import CannotWrite

# What a killed process may leave behind of a file that it was writing.
LEFT_OVER = (".partial-*", ".candidate-*", "*.partial")


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

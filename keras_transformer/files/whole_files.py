"""Files that appear complete or not at all: written as siblings, synced to disk, then renamed."""

import contextlib
import hashlib
import io
import json
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from keras_transformer.errors import CannotWrite
from keras_transformer.files.input_files import open_ordinary
from keras_transformer.types import PathLike

# Receives the complete file under its temporary name, e.g. to record its checksum; returns what to
# call when the file has its name, or None.
BeforeRename: TypeAlias = Callable[[Path], Callable[[], None] | None]

PARTIAL = ".partial-"
# Files that a killed process may leave. Unfinished translations, `.partial-NAME`, are kept.
_LEFT_OVER = re.compile(r"\.partial-[0-9a-f]{32}|\.candidate-.*\.weights\.h5")


@contextlib.contextmanager
def whole_file(
    path: PathLike, before_rename: BeforeRename | None = None
) -> Iterator[io.BufferedWriter]:
    """Open a file for writing bytes that moves to `path` when it is complete.

    The file is synced to disk before it gets its name, so neither a kill nor a power cut leaves
    half a file. If writing fails, the partial file is removed. The temporary name is random, so
    that a planted link cannot redirect the output. A link at `path` is replaced.

    Example:
        >>> import tempfile
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
            after_rename = None if before_rename is None else before_rename(partial)
            os.replace(partial, path)
            with contextlib.suppress(OSError):  # not every file system syncs directories
                sync(path.parent)
            if after_rename is not None:
                after_rename()
        finally:
            partial.unlink(missing_ok=True)


def _new_name(directory: Path) -> Path:
    """A random name for a file that is created exclusively."""
    return directory / f"{PARTIAL}{secrets.token_hex(16)}"


@contextlib.contextmanager
def writing(path: PathLike) -> Iterator[None]:
    """Turn an `OSError` into a `CannotWrite` that names the file and the reason."""
    try:
        yield
    except CannotWrite:
        raise
    except OSError as error:
        # HDF5's message has a page of details.
        reason = os.strerror(error.errno) if error.errno else " ".join(str(error).split())
        raise CannotWrite(f"Cannot write {path}: {reason}.") from error


def sync(path: PathLike) -> None:
    """Wait until a file, or the entries of a directory, are on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_text(path: PathLike, text: str, before_rename: BeforeRename | None = None) -> None:
    """Write a text file with `whole_file`, so that readers never see half a file."""
    write_bytes(path, text.encode("utf-8"), before_rename)


def write_json(path: PathLike, value: object, before_rename: BeforeRename | None = None) -> None:
    """Write a value as `json_bytes`, completely or not at all."""
    write_bytes(path, json_bytes(value), before_rename)


def json_bytes(value: object) -> bytes:
    """A JSON-compatible value as indented JSON.

    Bytes in file names that are not UTF-8 become question marks.
    """
    text = json.dumps(value, indent=2, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "replace")


def write_bytes(
    path: PathLike, content: bytes | memoryview, before_rename: BeforeRename | None = None
) -> None:
    """Write bytes, completely or not at all."""
    with whole_file(path, before_rename) as file:
        file.write(content)


def copy_file(
    source: PathLike, destination: PathLike, before_rename: BeforeRename | None = None
) -> None:
    """Copy a file, completely or not at all."""
    with open_ordinary(source) as original, whole_file(destination, before_rename) as copy:
        shutil.copyfileobj(original, copy)


def checksum(path: PathLike) -> str:
    """Return the SHA-256 of a regular file in hexadecimal; same errors as `open_ordinary`."""
    with open_ordinary(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def remove_left_over(directory: PathLike) -> None:
    """Remove the partial files that a killed process left."""
    for path in Path(directory).glob(".*"):
        if is_left_over(path.name) and (not path.is_dir() or path.is_symlink()):
            path.unlink(missing_ok=True)


def is_left_over(name: str) -> bool:
    """Whether a name is the name of a partial file."""
    return _LEFT_OVER.fullmatch(name) is not None

"""Readers for user-specified inputs, JSON records and archives of arrays.

NumPy is imported only by functions that need it, so commands can print their help without it.
"""

import contextlib
import errno
import io
import json
import math
import os
import stat
import sys
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeVar

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.types import PathLike, Tensor

if TYPE_CHECKING:
    import numpy as np


# On Windows, pipes are not files, so opening a file never waits for a writer.
_NONBLOCK = os.O_NONBLOCK if hasattr(os, "O_NONBLOCK") else 0
_MOST_LINES = 300_000  # per vocabulary; Python uses 100 bytes for each line


@contextlib.contextmanager
def open_input(path: PathLike) -> Iterator[io.BufferedReader]:
    """Open a user-specified file, pipe or device for reading bytes.

    All errors, including errors while reading, are raised as `UserInputError`.
    """
    with reading(path), open(path, "rb") as file:
        yield file


def read_input(path: PathLike, most_bytes: int) -> bytes:
    """Return the contents of an input. Inputs larger than `most_bytes` are rejected.

    The input may be in an untrusted folder: a pipe without a writer reads as empty.
    """
    with reading(path), open(path, "rb", opener=_open_at_once) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserInputError(f"{path} must have at most {most_bytes:,} bytes.")
    return content


def read_lines(path: PathLike, most_bytes: int) -> list[str]:
    """Return the lines of a UTF-8 text file, at most 300,000, read with `read_input`.

    Only a line feed, optionally preceded by a carriage return, ends a line.
    """
    content = read_input(path, most_bytes).removesuffix(b"\n")
    if content.count(b"\n") >= _MOST_LINES:
        raise UserInputError(f"{path} must have at most {_MOST_LINES:,} lines.")
    try:
        return [line.decode("utf-8").removesuffix("\r") for line in content.split(b"\n")]
    except UnicodeDecodeError as error:
        raise UserInputError(f"{path} is damaged: it is not UTF-8.") from error


@contextlib.contextmanager
def reading(path: PathLike) -> Iterator[None]:
    """Convert an `OSError` into a `UserInputError` that names the file and the reason."""
    try:
        yield
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror or error}") from error


def _open_at_once(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | _NONBLOCK)
    if _NONBLOCK:
        os.set_blocking(descriptor, True)
    return descriptor


def entries_of(directory: PathLike) -> list[Path]:
    """Return the sorted paths in a directory, or an empty list if it does not exist.

    By contrast, `Path.glob` silently finds nothing in an unreadable directory.

    Raises:
        UserInputError: the directory cannot be read.
    """
    with reading(directory):
        try:
            return sorted(Path(directory).iterdir())
        except FileNotFoundError:
            return []


def is_read_once(path: PathLike) -> bool:
    """Return whether an input is a pipe or a device, which can be read only once."""
    try:
        mode = os.stat(path).st_mode
    except OSError:  # reported when the file is opened
        return False
    return not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def open_ordinary(path: PathLike) -> io.BufferedReader:
    """Open a file from a run or an export for reading bytes.

    It must be a regular file or a link to one, since reading a pipe or a device could hang.
    Anything else raises an `OSError`.
    """
    return open(path, "rb", opener=_open_regular)


def _open_regular(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | _NONBLOCK)  # has no effect on regular files
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "it is not a regular file", str(path))


# The record of a thousand-layer model takes a few megabytes, as does a large vocabulary.
MOST_BYTES = 1 << 24
MOST_RECORD_BYTES = 1 << 20  # for the records of a run, which take a few kilobytes
_MOST_VALUES = 750_000  # per JSON text; Python uses up to 150 bytes for each value

_T = TypeVar("_T")


def read_json(path: PathLike, advice: str = "", most_bytes: int = MOST_BYTES) -> Any:
    """Return the value in a JSON file. Error messages end with `advice`."""
    return parse_json(path, read_small_file(path, most_bytes), advice)


def read_record(
    path: PathLike, record_type: type[_T], advice: str = "", most_bytes: int = MOST_BYTES
) -> _T:
    """Read a record from a JSON file and check its fields.

    `record_type` defines the fields and their types; it can be any type that `msgspec` supports.
    Unknown fields are ignored. Error messages end with `advice`.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "steps.json"
        >>> _ = path.write_text('{"first": 1, "last": 20}')
        >>> read_record(path, dict[str, int])
        {'first': 1, 'last': 20}
    """
    return to_record(path, read_json(path, advice, most_bytes), record_type, advice)


def parse_json(name: PathLike, content: bytes | str, advice: str = "") -> Any:
    """Parse JSON text. Error messages refer to its source as `name`."""
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    if sum(map(data.count, (b",", b":", b"[", b"{"))) > _MOST_VALUES:
        raise _damaged(name, f"it has more than {_MOST_VALUES:,} values", advice)
    try:
        if len(data) > MOST_RECORD_BYTES:
            return msgspec.json.decode(data)  # uses less memory and rejects NaN
        value = json.loads(content)
        json.dumps(value, ensure_ascii=False).encode()  # rejects lone surrogates
        return value
    except RecursionError as error:
        raise _damaged(name, "brackets are nested too deep", advice) from error
    # Also raised if the bytes are not UTF-8 or a number has too many digits.
    except (ValueError, msgspec.DecodeError) as error:
        raise _damaged(name, f"it is not JSON in UTF-8: {error}", advice) from error


def to_record(name: PathLike, value: object, record_type: type[_T], advice: str = "") -> _T:
    """Convert a JSON value to a record type. Error messages refer to its source as `name`."""
    try:
        return msgspec.convert(value, record_type)
    except (msgspec.ValidationError, OverflowError, RecursionError) as error:
        raise _damaged(name, str(error), advice) from error


def read_small_file(path: PathLike, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a regular file of at most `most_bytes` bytes. Any other file is rejected."""
    with reading(path), open_ordinary(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise UserInputError(f"{path} must have at most {most_bytes >> 20} MB.")
    return content


def _damaged(name: PathLike, reason: str, advice: str) -> UserInputError:
    return UserInputError(f"{name} is damaged: {reason}. {advice}".rstrip())


RECORD = "state.json"
_BLOCK = 1 << 20  # bytes read at a time
# Errors that a damaged archive can raise. `zipfile` has no specific classes for most of them.
DAMAGED: tuple[type[Exception], ...] = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
)


def write_archive(file: IO[bytes], record: object, arrays: Iterable[tuple[str, Tensor]]) -> None:
    """Write a JSON-compatible record and `(name, array)` pairs to an archive file."""
    import numpy as np

    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(RECORD), json.dumps(record))  # without the current time
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


_MOST_LISTED = 1 << 22  # bytes of an archive's file list; Python uses 15 times as much memory


class _ArchiveFile(io.BufferedReader):
    """A zip archive that limits the size of the file list that `zipfile` reads into memory."""

    most = _MOST_LISTED

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > self.most:
            raise ValueError(f"its list of files has more than {self.most:,} bytes")
        return super().read(size)


@contextlib.contextmanager
def open_zip(path: PathLike) -> Iterator[zipfile.ZipFile]:
    """Open an untrusted zip archive. A damaged archive raises an error from `DAMAGED`."""
    raw = open_ordinary(path).detach()
    with _ArchiveFile(raw) as file, zipfile.ZipFile(file) as archive:
        file.most = sys.maxsize
        yield archive


_MOST_GROWTH = 20  # for compressed numbers and words; malicious files expand a thousandfold


class Unpacked:
    """Unpacks the files of an untrusted model and limits their total size.

    Args:
        packed_bytes: total size of the packed files.
    """

    def __init__(self, packed_bytes: int) -> None:
        self._left = self._most = _MOST_GROWTH * packed_bytes

    def write(self, source: IO[bytes], target: PathLike) -> None:
        """Write an unpacked stream to a new file. Raise a ValueError if the total is too large."""
        with open(target, "xb") as out:
            while content := source.read(_BLOCK):
                self._left -= len(content)
                if self._left < 0:
                    raise ValueError(f"it unpacks to more than {self._most:,} bytes")
                out.write(content)


@contextlib.contextmanager
def open_archive(path: PathLike) -> Iterator[zipfile.ZipFile]:
    """Open an archive from `write_archive`. A damaged archive raises an error from `DAMAGED`.

    Compressed members are rejected so that a small file cannot fill up memory.
    """
    with open_zip(path) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise ValueError(f"{member.filename} is compressed or encrypted")
        yield archive


def read_archive_record(archive: zipfile.ZipFile, path: PathLike) -> Any:
    """Return the JSON record of an archive. Error messages refer to the archive as `path`."""
    size = archive.getinfo(RECORD).file_size
    if size > MOST_BYTES:
        raise ValueError(f"{RECORD} has {size:,} bytes")
    return parse_json(path, archive.read(RECORD))


def read_array_header(file: IO[bytes], name: str) -> "tuple[tuple[int, ...], bool, np.dtype]":
    """Return an array's shape, whether it is stored in column-major order, and its dtype."""
    import numpy as np

    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{name} has a header of version {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about outdated or damaged headers
        try:
            return np.lib.format.read_array_header_1_0(file)
        except OSError:
            raise
        except Exception as error:  # from Python's parser and tokenizer, which NumPy calls
            raise ValueError(f"{name} has a damaged header") from error


def read_array(
    archive: zipfile.ZipFile, name: str, shape: Iterable[int], itemsize: int
) -> "np.ndarray":
    """Read an array. A wrong shape or item size raises a ValueError before allocation."""
    import numpy as np

    shape = tuple(shape)
    with archive.open(f"{name}.npy") as member:
        found, by_columns, dtype = read_array_header(member, name)
        if found != shape or dtype.hasobject or dtype.itemsize != itemsize or by_columns:
            raise ValueError(f"{name} is {dtype}{list(found)}, not of shape {list(shape)}")
        file: Any = archive.fp
        if math.prod(shape) * itemsize > os.fstat(file.fileno()).st_size:
            raise ValueError(f"{name} is larger than its archive")
        array = np.empty(shape, dtype)
        content = array.reshape(-1).view(np.uint8).data
        for start in range(0, len(content), _BLOCK):
            block = member.read(min(_BLOCK, len(content) - start))
            content[start : start + _BLOCK] = block  # raises a ValueError if the file ends early
        return array

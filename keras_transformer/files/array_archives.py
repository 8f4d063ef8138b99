"""Arrays in NumPy's `.npz` format with a JSON record, read and written one array at a time."""

import contextlib
import json
import math
import warnings
import zipfile
from collections.abc import Iterable, Iterator
from typing import IO, Any

import numpy as np

from keras_transformer.files.input_files import open_ordinary
from keras_transformer.files.json_files import MOST_BYTES, parse_json
from keras_transformer.types import PathLike, Tensor

RECORD = "state.json"
# The errors that a damaged archive raises; `zipfile` has no classes of its own for most of them.
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
    """Write `(name, array)` pairs and a JSON-compatible record to a file."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(RECORD, json.dumps(record))
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


@contextlib.contextmanager
def open_archive(path: PathLike) -> Iterator[zipfile.ZipFile]:
    """Open an archive from `write_archive`; a damaged archive raises an error in `DAMAGED`.

    Compressed members are refused, so that a small file cannot fill up memory.
    """
    with open_ordinary(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise ValueError(f"{member.filename} is compressed or encrypted")
        yield archive


def read_record(archive: zipfile.ZipFile, path: PathLike) -> Any:
    """Return the JSON record of an archive; `path` names it in errors."""
    size = archive.getinfo(RECORD).file_size
    if size > MOST_BYTES:
        raise ValueError(f"{RECORD} has {size:,} bytes")
    return parse_json(path, archive.read(RECORD))


def read_array_header(file: IO[bytes], name: str) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Return an array's shape, whether it is stored by columns, and its type."""
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError(f"{name} has a header of version {version}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about old versions of headers, and damaged headers
        return np.lib.format.read_array_header_1_0(file)


def read_array(
    archive: zipfile.ZipFile, name: str, shape: Iterable[int], itemsize: int
) -> np.ndarray:
    """Return an array; a wrong shape or item size is a ValueError before memory is allocated."""
    shape = tuple(shape)
    with archive.open(f"{name}.npy") as member:
        found, by_columns, dtype = read_array_header(member, name)
        if found != shape or dtype.hasobject or dtype.itemsize != itemsize or by_columns:
            raise ValueError(f"{name} is {dtype}{list(found)}, not of shape {list(shape)}")
        content = member.read(math.prod(shape) * itemsize)
        return np.frombuffer(content, dtype).reshape(shape)

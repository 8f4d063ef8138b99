"""Archives of arrays, as `numpy.savez` writes them, with a record in JSON: one array at a time."""

import contextlib
import json
import math
import zipfile

import numpy as np

from keras_transformer.files.json_files import MOST_BYTES, parse_json
from keras_transformer.files.ordinary_files import open_ordinary

RECORD = "state.json"
# What a damaged archive raises; `zipfile` has no class of its own for most of it.
DAMAGED = (
    OSError,
    ValueError,
    KeyError,
    EOFError,
    OverflowError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
)


def write_archive(file, record, arrays):
    """Write `(name, array)` pairs and a JSON-compatible record to a file open for writing bytes."""
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(RECORD, json.dumps(record))
        for name, array in arrays:
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


@contextlib.contextmanager
def open_archive(path):
    """Open an archive of `write_archive` for reading; what is damaged raises one of `DAMAGED`.

    Nothing in it is compressed, so nothing grows when it is read.
    """
    with open_ordinary(path) as file, zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 1:
                raise ValueError(f"{member.filename} is compressed or encrypted")
        yield archive


def read_record(archive, path):
    """The value of the archive's JSON record; `path` is its name for errors."""
    size = archive.getinfo(RECORD).file_size
    if size > MOST_BYTES:
        raise ValueError(f"{RECORD} has {size:,} bytes")
    return parse_json(path, archive.read(RECORD))


def read_array(archive, name, shape, itemsize):
    """Return an array of this shape, and so many bytes an element; ValueError for another one.

    That is found before memory is taken.
    """
    with archive.open(f"{name}.npy") as member:
        version = np.lib.format.read_magic(member)
        if version != (1, 0):
            raise ValueError(f"{name} has a header of version {version}")
        found, by_columns, dtype = np.lib.format.read_array_header_1_0(member)
        if found != tuple(shape) or dtype.hasobject or dtype.itemsize != itemsize or by_columns:
            raise ValueError(f"{name} is {dtype}{list(found)}, not of shape {list(shape)}")
        content = member.read(math.prod(shape) * itemsize)
        return np.frombuffer(content, dtype).reshape(shape)

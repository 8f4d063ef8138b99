"""HDF5 files that contain weights or LoRA adapters.

An HDF5 file can refer to data in other files (external storage, virtual datasets, links) and
declare more data than it contains. Weight files need neither, so such files are refused.
"""

import contextlib
import io
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import h5py
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import open_ordinary
from keras_transformer.types import PathLike, Tensor

# Errors that h5py raises for damaged files; HDF5 errors are mostly OSError or RuntimeError.
_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, OverflowError)
_MOST_ITEMS = 1 << 16  # limit on arrays and groups; HDF5 needs a millisecond for each
_NUMBERS = "fiub"  # NumPy's kinds of floats, integers and booleans
_MARKS = frozenset({"name", "dtype"})  # attributes written by Keras
_BFLOAT16 = np.dtype("V2")  # as stored by HDF5; a dataset attribute gives the real type


class WeightFile(io.BytesIO):
    """A weight file in memory, with a name that Keras accepts.

    HDF5 kills the process if it cannot write, e.g. to a full disk. Files are therefore created in
    memory and written afterwards.
    """

    def __str__(self) -> str:
        return "model.weights.h5"


class _FileOnDisk(WeightFile):
    """An open file on disk that poses as an in-memory file, the only kind that Keras accepts."""

    def __init__(self, path: PathLike, file: io.BufferedReader) -> None:
        super().__init__()
        self._path = path
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        with _reading(self._path):
            return self._file.read(-1 if size is None else size)

    def readinto(self, buffer: Any) -> int:
        with _reading(self._path):
            return self._file.readinto(buffer)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()


@contextlib.contextmanager
def _reading(path: PathLike) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserInputError(f"Cannot read the weights {path}: {reason}.") from error


@contextlib.contextmanager
def weight_file(path: PathLike) -> Iterator[WeightFile]:
    """Open a weight file for repeated reading. Every read sees the same contents.

    Raises:
        UserInputError: the file cannot be read, or it changed between reads.
    """
    with contextlib.ExitStack() as stack:
        with _reading(path):
            file = stack.enter_context(open_ordinary(path))
            before = os.fstat(file.fileno())
        yield _FileOnDisk(path, file)
        with _reading(path):
            after = os.fstat(file.fileno())
    if (before.st_mtime_ns, before.st_size) != (after.st_mtime_ns, after.st_size):
        raise UserInputError(f"The weights {path} changed while they were being read. Try again.")


class StoredWeights(Mapping[str, h5py.Dataset]):
    """The datasets of an open file, keyed by name.

    Each dataset is opened only when needed, because an open dataset uses 13 kB of memory.
    """

    def __init__(self, file: h5py.File, names: Iterable[str]) -> None:
        self._file = file
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> h5py.Dataset:
        if name not in self._names:
            raise KeyError(name)
        return self._file[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def without(self, prefix: str) -> "StoredWeights":
        """Return the datasets whose names do not start with a prefix."""
        return StoredWeights(self._file, (n for n in self if not n.startswith(prefix)))


@contextlib.contextmanager
def open_weights(path: PathLike, content: WeightFile | None = None) -> Iterator[StoredWeights]:
    """Check the structure of a weight file and open its `h5py.Dataset`s, keyed by name.

    Files that are damaged or contain anything except plain numeric arrays in groups are refused.
    If `content` is given, it is read instead, and `path` is used only in errors.
    """
    try:
        with contextlib.ExitStack() as stack:
            source: io.BufferedIOBase
            source = stack.enter_context(open_ordinary(path)) if content is None else content
            size = source.seek(0, io.SEEK_END)
            source.seek(0)
            file = stack.enter_context(h5py.File(source, "r"))
            yield StoredWeights(file, _names(path, file, size))
    except UserInputError:
        raise
    except _DAMAGED as error:
        reason = " ".join(str(error).split())[:200]
        raise UserInputError(f"Cannot read the weights {path}: {reason}.") from error


def make_weight_file(tensors: Iterable[tuple[h5py.Dataset, Tensor]]) -> WeightFile:
    """Create a file of arrays, copying each array's name, type and attributes from its dataset."""
    content = WeightFile()
    with h5py.File(content, "w") as file:
        for dataset, array in tensors:
            made = file.create_dataset(dataset.name, data=array, dtype=dataset.dtype)
            for origin, copy in ((dataset, made), (dataset.parent, made.parent)):
                for mark in _MARKS & origin.attrs.keys():
                    copy.attrs[mark] = str(origin.attrs[mark])
    return content


def _names(path: PathLike, file: h5py.File, file_size: int) -> list[str]:
    """Check the contents of a file and return the names of its datasets."""
    names, seen, groups, left = [], set(), [file], file_size
    while groups:
        group = groups.pop()
        for name in group:
            _require(isinstance(group.get(name, getlink=True), h5py.HardLink), path, name, "a link")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            _require(address not in seen, path, item.name, "a second name of something")
            seen.add(address)
            _require(len(seen) <= _MOST_ITEMS, path, item.name, f"one of over {_MOST_ITEMS:,}")
            if isinstance(item, h5py.Group):
                groups.append(item)
                continue
            _require(isinstance(item, h5py.Dataset), path, item.name, "not an array")
            left -= _check_dataset(path, item)
            _require(left >= 0, path, item.name, "in bytes of another array")
            names.append(item.name.removeprefix("/"))
    return names


def _check_dataset(path: PathLike, dataset: h5py.Dataset) -> int:
    """Require a plain array of numbers, and return its size in bytes."""
    name, dtype = dataset.name, dataset.dtype
    plist = dataset.id.get_create_plist()
    is_external = plist.get_external_count() or dataset.is_virtual
    _require(not is_external, path, name, "kept in another file")
    is_numbers = dtype.kind in _NUMBERS or dtype == _BFLOAT16
    _require(is_numbers and dataset.shape is not None, path, name, f"of type {dtype}")
    _require(not plist.get_nfilters(), path, name, "compressed")
    size = math.prod(dataset.shape) * dtype.itemsize
    is_there = dataset.id.get_storage_size() >= size
    _require(is_there, path, name, f"declared with {size:,} bytes and has fewer")
    return size


def _require(holds: bool, path: PathLike, name: str, what: str) -> None:
    if not holds:
        raise UserInputError(
            f"The weights {path} are refused: `{name}` is {what}. Weights are plain arrays of "
            "numbers."
        )

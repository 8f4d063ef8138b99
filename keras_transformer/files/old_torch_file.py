"""The files of PyTorch before 1.6: pickles one after the other, then the numbers of each storage.

They may be hostile, as the archives of later versions: nothing in them runs, and what they declare
is compared with their size before memory is taken.
"""

import io
import os
import struct

from keras_transformer.files.json_files import MOST_BYTES
from keras_transformer.files.torch_archive import (
    TorchStorage,
    TorchTensor,
    read_state_dict,
    read_value,
)

# The first pickle, of the number 0x1950A86A20F9469CFC6C: such a file begins with it.
MAGIC = b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19\x2e"
_PROTOCOL_VERSION = 1001
_COUNT = struct.Struct("<q")  # before the numbers of a storage


class _Pickles:
    """The pickles at the beginning of a file, for `pickletools`, which may ask for any size."""

    def __init__(self, file: io.BufferedReader) -> None:
        self._file = file
        self._left = MOST_BYTES

    def read(self, size: int) -> bytes:
        self._take(size)
        return self._file.read(size)

    def readline(self) -> bytes:
        line = self._file.readline(self._left)
        self._take(len(line))
        return line

    def _take(self, size: int) -> None:
        self._left -= size
        if self._left <= 0:
            raise ValueError(f"its pickles have more than {MOST_BYTES:,} bytes")


def read_old_file(
    file: io.BufferedReader,
) -> tuple[dict[str, TorchTensor], dict[str, tuple[int, int]]]:
    """Return the tensors by name, and of each storage the first byte and the number of bytes.

    Args:
        file: the file, at its beginning.

    Raises:
        ValueError: it holds anything but a dict of names and tensors, or more or fewer numbers
            than these need. A damaged one may raise other exceptions too.
    """
    pickles = _Pickles(file)
    _, version, system = (read_value(pickles) for _ in range(3))
    if version != _PROTOCOL_VERSION:
        raise ValueError(f"it is not of version {_PROTOCOL_VERSION} of its format")
    if type(system) is not dict or system.get("little_endian") is not True:
        raise ValueError("its numbers are not little-endian")
    tensors = read_state_dict(pickles)
    storages = _storages(tensors)
    keys = read_value(pickles)
    if type(keys) is not list or not all(isinstance(key, str) for key in keys):
        raise ValueError("its storages have no names")
    if sorted(keys) != sorted(storages):
        raise ValueError("its storages are not those of its tensors, each once")
    return tensors, _places(file, [storages[key] for key in keys])


def _storages(tensors: dict[str, TorchTensor]) -> dict[str, TorchStorage]:
    """The storages of the tensors, which may share them, by key."""
    found: dict[str, TorchStorage] = {}
    for tensor in tensors.values():
        storage = tensor.storage
        if found.setdefault(storage.key, storage) != storage:
            raise ValueError(f"its storage {storage.key} has two types or sizes")
    return found


def _places(file: io.BufferedReader, storages: list[TorchStorage]) -> dict[str, tuple[int, int]]:
    """Where each storage lies; they fill the rest of the file in their order."""
    start = file.tell()
    size = file.seek(0, os.SEEK_END)
    places = {}
    for storage in storages:
        file.seek(start)
        (count,) = _COUNT.unpack(file.read(_COUNT.size))
        if count != storage.size:
            raise ValueError(
                f"its storage {storage.key} has {count:,} numbers, and its pickle says "
                f"{storage.size:,}"
            )
        start += _COUNT.size
        places[storage.key] = start, storage.num_bytes
        start += storage.num_bytes
        if start > size:
            raise ValueError(f"its storage {storage.key} is cut off")
    if start != size:
        raise ValueError("its last storage does not end with the file")
    return places

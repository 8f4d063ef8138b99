"""Writes files as PyTorch's `torch.save` does, without PyTorch."""

import io
import pickle
import zipfile
from typing import NamedTuple

import numpy as np

STORAGES = {
    "float64": "Double",
    "float32": "Float",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
}


class Global(NamedTuple):
    module: str
    name: str


class Call(NamedTuple):
    function: Global
    arguments: object
    state: object = None


class Storage(NamedTuple):
    dtype: str
    key: str
    size: int


class Pickler(pickle._Pickler):
    """Writes names of modules that are not there."""

    def save(self, value, save_persistent_id=True):
        match value:
            case Global(module, name):
                self.write(f"c{module}\n{name}\n".encode())
            case Call(function, arguments, state):
                self.save(function)
                self.save(arguments)
                self.write(b"R")
                if state is not None:
                    self.save(state)
                    self.write(b"b")
            case Storage(dtype, key, size):
                kind = Global("torch", f"{STORAGES[dtype]}Storage")
                self.save(("storage", kind, key, "cpu", size))
                self.write(b"Q")
            case _:
                super().save(value, save_persistent_id)


ORDERED_DICT = Global("collections", "OrderedDict")
REBUILD = Global("torch._utils", "_rebuild_tensor_v2")
PARAMETER = Global("torch._utils", "_rebuild_parameter")


def tensor(storage, offset, shape, strides):
    return Call(REBUILD, (storage, offset, shape, strides, False, Call(ORDERED_DICT, ())))


def pickled(value, protocol=2):
    file = io.BytesIO()
    Pickler(file, protocol).dump(value)
    return file.getvalue()


def write_torch(path, content, storages=(), byte_order=b"little", compression=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("model/data.pkl", content)
        if byte_order is not None:
            archive.writestr("model/byteorder", byte_order)
        for key, data in dict(storages).items():
            archive.writestr(f"model/data/{key}", data)
    return path


def strides(shape):
    return tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))


def torch_file(path, arrays, dtypes=None, protocol=2):
    state, storages = {}, {}
    for index, (name, array) in enumerate(arrays.items()):
        dtype = (dtypes or {}).get(name, array.dtype.name)
        storage = Storage(dtype, str(index), array.size)
        state[name] = tensor(storage, 0, array.shape, strides(array.shape))
        storages[index] = array.tobytes()
    return write_torch(path, pickled(state, protocol), storages)

"""Files of weights in HDF5: read as data that anybody may have written, made anew in memory.

An HDF5 file can name other files as the home of its data (external storage, virtual datasets,
links), and promise more data than it has. Files of weights need neither, so none with it is read.
"""

import contextlib
import io
import math

import h5py
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files.ordinary_files import open_ordinary

# What h5py raises where a file is damaged: mostly OSError and RuntimeError, of HDF5's own errors.
_DAMAGED = (OSError, RuntimeError, ValueError, KeyError, TypeError, AttributeError, OverflowError)
_NUMBERS = "fiub"  # floats, integers and booleans, as NumPy calls these kinds
_MARKS = frozenset({"name", "dtype"})  # the attributes that Keras writes
_BFLOAT16 = np.dtype("V2")  # what HDF5 makes of it; an attribute of the dataset says what it is


class WeightFile(io.BytesIO):
    """A file of weights in memory, with a name such as Keras wants of one.

    HDF5 does not outlive an error of the disk, such as one that is full: it ends the process. So
    files are made here, and then written.
    """

    def __str__(self):
        return "model.weights.h5"


def read_weight_file(path):
    """Return a `WeightFile` with the content of a file, which then cannot change any more."""
    try:
        with open_ordinary(path) as file:
            return WeightFile(file.read())
    except OSError as error:
        raise UserInputError(f"Cannot read the weights {path}: {error.strerror}.") from error
    except MemoryError as error:
        raise UserInputError(f"The weights {path} do not fit into the memory.") from error


@contextlib.contextmanager
def open_weights(path, content=None):
    """Open weights whose structure has been looked at: `h5py.Dataset`s by name.

    Each has as many numbers as its shape says. What is refused is a file that is damaged, or holds
    something else than plain arrays of numbers in groups. `content`, a `WeightFile`, stands for the
    file, whose name is for errors then.
    """
    try:
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(open_ordinary(path)) if content is None else content
            file = stack.enter_context(h5py.File(source, "r"))
            yield _datasets(path, file)
    except UserInputError:
        raise
    except _DAMAGED as error:
        reason = " ".join(str(error).split())[:200]
        raise UserInputError(f"Cannot read the weights {path}: {reason}.") from error


def make_weight_file(tensors):
    """Return a `WeightFile` of arrays, each with a dataset that gives it name and marks."""
    content = WeightFile()
    with h5py.File(content, "w") as file:
        for dataset, array in tensors:
            made = file.create_dataset(dataset.name, data=array, dtype=dataset.dtype)
            for origin, copy in ((dataset, made), (dataset.parent, made.parent)):
                for mark in _MARKS & origin.attrs.keys():
                    copy.attrs[mark] = str(origin.attrs[mark])
    return content


def _datasets(path, file):
    """The datasets of a file by name, after a look at all that is in it."""
    datasets, seen, groups = {}, set(), [file]
    while groups:
        group = groups.pop()
        for name in group:
            _require(isinstance(group.get(name, getlink=True), h5py.HardLink), path, name, "a link")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            _require(address not in seen, path, item.name, "a second name of something")
            seen.add(address)
            if isinstance(item, h5py.Group):
                groups.append(item)
                continue
            _require(isinstance(item, h5py.Dataset), path, item.name, "no array")
            _check_dataset(path, item)
            datasets[item.name.removeprefix("/")] = item
    return datasets


def _check_dataset(path, dataset):
    name, dtype = dataset.name, dataset.dtype
    plist = dataset.id.get_create_plist()
    is_external = plist.get_external_count() or dataset.is_virtual
    _require(not is_external, path, name, "kept in another file")
    is_numbers = dtype.kind in _NUMBERS or dtype == _BFLOAT16
    _require(is_numbers and dataset.shape is not None, path, name, f"of type {dtype}")
    _require(not plist.get_nfilters(), path, name, "compressed")
    size = math.prod(dataset.shape) * dtype.itemsize
    is_there = dataset.id.get_storage_size() >= size
    _require(is_there, path, name, f"said to have {size:,} bytes and does not")


def _require(holds, path, name, what):
    if not holds:
        raise UserInputError(
            f"The weights {path} are refused: `{name}` is {what}. Weights are plain arrays of "
            "numbers."
        )

"""The pickle in a PyTorch archive, which may be hostile: nothing that it names is executed.

As with `torch.load(weights_only=True)`, only the few names that a dict of tensors needs are
allowed. PyTorch is not needed.
"""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

# A tensor takes about 200 bytes. In a hostile pickle, one byte takes up to 64 bytes of memory.
MOST_PICKLE_BYTES = 1 << 22
_LARGEST = (1 << 63) - 1
_STORAGES = {
    "DoubleStorage": "float64",
    "FloatStorage": "float32",
    "HalfStorage": "float16",
    "BFloat16Storage": "bfloat16",
    "LongStorage": "int64",
    "IntStorage": "int32",
    "ShortStorage": "int16",
    "CharStorage": "int8",
    "ByteStorage": "uint8",
    "BoolStorage": "bool",
}
# The operations of `torch.save` that need no check.
_OPERATIONS = (
    *(pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK),
    *(pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.BINFLOAT),
    *(pickle.BININT, pickle.BININT1, pickle.BININT2, pickle.LONG1),
    *(pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.EMPTY_DICT),
    *(pickle.EMPTY_TUPLE, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.TUPLE),
    *(pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE, pickle.BINGET, pickle.LONG_BINGET),
    *(pickle.GLOBAL, pickle.STACK_GLOBAL, pickle.REDUCE, pickle.BINPERSID),
)


@dataclass(frozen=True, slots=True)
class TorchStorage:
    """A run of numbers in an entry of the archive.

    Attributes:
        dtype: NumPy's name for the type of the numbers, or `"bfloat16"`.
        key: name of the entry, in the folder `data`.
        size: declared number of numbers.
    """

    dtype: str
    key: str
    size: int

    @property
    def item_size(self) -> int:
        """Number of bytes per number."""
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A view of a storage, as declared by the pickle and not checked against the file.

    Attributes:
        storage: the numbers.
        offset: index of the first number.
        shape: the sizes of the axes.
        strides: the distance between neighbors on each axis, in numbers.
    """

    storage: TorchStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_state_dict(content: bytes) -> dict[str, TorchTensor]:
    """Return the tensors of a pickled dict by name.

    Args:
        content: the pickle, `data.pkl` in the archive, of at most `MOST_PICKLE_BYTES`.

    Raises:
        ValueError: the pickle holds anything but a dict of names and tensors. A damaged pickle may
            also raise other exceptions.

    Example:

    ```python
    with zipfile.ZipFile("pytorch_model.bin") as archive:
        tensors = read_state_dict(archive.read("pytorch_model/data.pkl"))
    ```
    """
    state = _TensorUnpickler(io.BytesIO(content)).load()
    _require(isinstance(state, dict), "its pickle must be a dict of tensors")
    for name, tensor in state.items():
        _require(
            isinstance(tensor, TorchTensor),
            f"`{name}` is of type {type(tensor).__name__}; save only a dict of names and tensors",
        )
    return state


class _TensorUnpickler(pickle._Unpickler):
    """Knows only the names that tensors need, and the operations that `torch.save` writes for them.

    This is Python's own unpickler, written in Python. The unpickler in C allocates memory for any
    index that a pickle names, and hashes anything that a pickle uses as a key.
    """

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> object:
        if (module, name) not in _NAMES:
            raise ValueError(f"its pickle asks for {module}.{name}, which is refused")
        return _NAMES[module, name]

    def persistent_load(self, pid: object) -> TorchStorage:
        match pid:
            case ("storage", _StorageType(dtype), str(key), str(), int(size)):
                return TorchStorage(dtype, key, _index(size))
        raise ValueError("its pickle has a malformed storage")

    def set_item(self) -> None:
        *_, name, value = self.stack
        del self.stack[-2:]
        self._set_pairs([name, value])

    def set_items(self) -> None:
        self._set_pairs(self.pop_mark())

    def _set_pairs(self, items: list[Any]) -> None:
        target = self.stack[-1]
        _require(type(target) is dict, "its pickle sets items of something other than a dict")
        for name, value in zip(items[::2], items[1::2], strict=True):
            # Hashing a nested tuple could take forever; hashing a string cannot.
            _require(isinstance(name, str), "a name in its dict is not a string")
            target[name] = value

    def ignore_state(self) -> None:
        """Ignore the attribute `_metadata` of a state dict."""
        self.stack.pop()
        _require(type(self.stack[-1]) is dict, "its pickle sets attributes")

    def refuse(self) -> None:
        raise ValueError("its pickle has an operation that tensors do not need")

    dispatch: ClassVar[dict[int, Any]] = {
        **dict.fromkeys(range(256), refuse),
        **{code[0]: pickle._Unpickler.dispatch[code[0]] for code in _OPERATIONS},
        pickle.SETITEM[0]: set_item,
        pickle.SETITEMS[0]: set_items,
        pickle.BUILD[0]: ignore_state,
    }


@dataclass(frozen=True, slots=True)
class _StorageType:
    dtype: str


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise ValueError(fault)


def _index(value: object) -> int:
    """A size, an offset or a stride."""
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError("a size, an offset or a stride of a tensor is not a number from 0")
    return value


def _indices(values: object) -> tuple[int, ...]:
    if not isinstance(values, tuple):
        raise ValueError("the shape or the strides of a tensor are not a tuple")
    return tuple(_index(value) for value in values)


def _ordered_dict() -> dict[str, Any]:
    return {}


def _rebuild_tensor(
    storage: object, offset: object, shape: object, strides: object, *_: object
) -> TorchTensor:
    """`torch._utils._rebuild_tensor_v2`, without gradients and hooks."""
    if not isinstance(storage, TorchStorage):
        raise ValueError("a tensor has no storage")
    tensor = TorchTensor(storage, _index(offset), _indices(shape), _indices(strides))
    _require(len(tensor.shape) == len(tensor.strides), "a tensor does not have one stride per axis")
    return tensor


def _rebuild_parameter(tensor: object, *_: object) -> TorchTensor:
    """`torch._utils._rebuild_parameter`; returns the tensor of the parameter."""
    if not isinstance(tensor, TorchTensor):
        raise ValueError("a parameter has no tensor")
    return tensor


_NAMES: dict[tuple[str, str], object] = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
} | {("torch", name): _StorageType(dtype) for name, dtype in _STORAGES.items()}

"""The pickle in a file of PyTorch, interpreted by hand: it may be hostile, and runs nothing.

`pickle` would call what the file names. This reads the few operations that a dict of tensors
needs, as `torch.load(weights_only=True)` does, and makes records of them. Everything else is a
ValueError. PyTorch is not needed.
"""

import pickletools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

# A tensor takes about 32 operations; this bounds the time and the memory of a hostile pickle.
MOST_STEPS = 1 << 21
_LARGEST = (1 << 63) - 1
_STORAGES = {
    "torch DoubleStorage": "float64",
    "torch FloatStorage": "float32",
    "torch HalfStorage": "float16",
    "torch BFloat16Storage": "bfloat16",
    "torch LongStorage": "int64",
    "torch IntStorage": "int32",
    "torch ShortStorage": "int16",
    "torch CharStorage": "int8",
    "torch ByteStorage": "uint8",
    "torch BoolStorage": "bool",
}


@dataclass(frozen=True, slots=True)
class TorchStorage:
    """A run of numbers in an entry of the archive, or in a file of PyTorch before 1.6.

    Attributes:
        dtype: NumPy's name of their type, or `"bfloat16"`.
        key: name of the entry, in the folder `data`.
        size: how many numbers are declared.
    """

    dtype: str
    key: str
    size: int

    @property
    def item_size(self) -> int:
        """Bytes of a number."""
        return 2 if self.dtype == "bfloat16" else np.dtype(self.dtype).itemsize

    @property
    def num_bytes(self) -> int:
        """Bytes of all numbers that are declared."""
        return self.size * self.item_size


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A view of a storage, as the pickle declares it; nothing of it is checked against the file.

    Attributes:
        storage: the numbers.
        offset: index of the first one.
        shape: the sizes.
        strides: how many numbers lie between neighbors, for every axis.
    """

    storage: TorchStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _StorageType:
    dtype: str


@dataclass(frozen=True, slots=True)
class _Function:
    call: Callable[..., Any]


class PickleReader(Protocol):
    """What `pickletools` reads a pickle from; the rest of it stays unread."""

    def read(self, size: int, /) -> bytes: ...

    def readline(self) -> bytes: ...


def read_state_dict(content: bytes | PickleReader) -> dict[str, TorchTensor]:
    """Return the tensors of a pickled dict by name.

    Args:
        content: the pickle, `data.pkl` in the archive.

    Raises:
        ValueError: it holds anything but a dict of names and tensors. A damaged one may raise
            other exceptions too.

    Example:

    ```python
    with zipfile.ZipFile("pytorch_model.bin") as archive:
        tensors = read_state_dict(archive.read("pytorch_model/data.pkl"))
    ```
    """
    state = read_value(content)
    _require(isinstance(state, dict), "its pickle must be a dict of tensors")
    for name, tensor in state.items():
        _require(
            isinstance(tensor, TorchTensor),
            f"`{name}` is of type {type(tensor).__name__}; save a dict of names and tensors alone",
        )
    return state


def read_value(content: bytes | PickleReader) -> Any:
    """Return what a pickle holds: numbers, texts, tuples, lists, dicts, storages and tensors.

    A list or a dict may contain itself. Errors are those of `read_state_dict`.
    """
    return _Machine().run(content)


class _Machine:
    """The stack, the marks in it, and the memo of a pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes | PickleReader) -> Any:
        operations = pickletools.genops(content)  # type: ignore[arg-type]  # no other methods
        for count, (operation, argument, _) in enumerate(operations):
            _require(count < MOST_STEPS, "its pickle is too long")
            step = _STEPS.get(operation.name)
            if step is None:
                raise ValueError(f"its pickle has the operation {operation.name}")
            step(self, argument)
        (value,) = self._stack
        return value

    def skip(self, _: object) -> None:
        """An operation without effect."""

    def push(self, value: object) -> None:
        self._stack.append(value)

    def push_global(self, path: str) -> None:
        known = _GLOBALS.get(path)
        if known is None:
            raise ValueError(f"its pickle asks for {path.replace(' ', '.')}, which is refused")
        self.push(known)

    def pop_global(self, _: object) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        _require(isinstance(name, str) and isinstance(module, str), "a global has no name")
        self.push_global(f"{module} {name}")

    def mark(self, _: object) -> None:
        self._marks.append(len(self._stack))

    def pop_to_mark(self) -> list[Any]:
        place = self._marks.pop()
        items = self._stack[place:]
        del self._stack[place:]
        return items

    def make_tuple(self, size: int | None) -> None:
        if size is None:
            self.push(tuple(self.pop_to_mark()))
        else:
            _require(len(self._stack) >= size, "its pickle takes from an empty stack")
            items = tuple(self._stack[-size:])
            del self._stack[-size:]
            self.push(items)

    def put(self, index: int | None) -> None:
        self._memo[len(self._memo) if index is None else index] = self._stack[-1]

    def get(self, index: int) -> None:
        self.push(self._memo[index])

    def call(self, _: object) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        _require(isinstance(function, _Function), "its pickle calls no function")
        _require(isinstance(arguments, tuple), "its pickle calls a function without arguments")
        self.push(function.call(*arguments))

    def ignore_state(self, _: object) -> None:
        """The attribute `_metadata` of a state dict; nothing is made of it."""
        self._stack.pop()
        _require(type(self._stack[-1]) is dict, "its pickle sets attributes")

    def load_storage(self, _: object) -> None:
        match self._stack.pop():
            case (
                ("storage", _StorageType(dtype), str(key), str(), int(size))
                # Before PyTorch 1.6 the last one could make it a part of another storage.
                | ("storage", _StorageType(dtype), str(key), str(), int(size), None)
            ):
                self.push(TorchStorage(dtype, key, _index(size)))
            case _:
                raise ValueError("its pickle has a malformed storage")

    def set_item(self, _: object) -> None:
        self.set_pairs(self._stack[-2:])
        del self._stack[-2:]

    def set_items(self, _: object) -> None:
        self.set_pairs(self.pop_to_mark(), below=1)

    def append(self, _: object) -> None:
        self._extend([self._stack.pop()])

    def append_items(self, _: object) -> None:
        self._extend(self.pop_to_mark())

    def _extend(self, items: list[Any]) -> None:
        target = self._stack[-1]
        _require(type(target) is list, "its pickle appends to something other than a list")
        target += items

    def set_pairs(self, items: list[Any], below: int = 3) -> None:
        target = self._stack[-below]
        _require(type(target) is dict, "its pickle sets items of something other than a dict")
        for name, value in zip(items[::2], items[1::2], strict=True):
            # The hash of a nested tuple could take forever; a string's cannot.
            _require(isinstance(name, str), "a name in its dict is not a string")
            _require(name not in target, f"the name `{name}` is there twice")
            target[name] = value


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
    """`torch._utils._rebuild_tensor_v2`; gradients and hooks are left out."""
    if not isinstance(storage, TorchStorage):
        raise ValueError("a tensor has no storage")
    tensor = TorchTensor(storage, _index(offset), _indices(shape), _indices(strides))
    _require(len(tensor.shape) == len(tensor.strides), "a tensor has not one stride per axis")
    return tensor


def _rebuild_parameter(tensor: object, *_: object) -> TorchTensor:
    """`torch._utils._rebuild_parameter`, as the tensor that it holds."""
    if not isinstance(tensor, TorchTensor):
        raise ValueError("a parameter has no tensor")
    return tensor


_GLOBALS: dict[str, _Function | _StorageType] = {
    "collections OrderedDict": _Function(_ordered_dict),
    "torch._utils _rebuild_tensor_v2": _Function(_rebuild_tensor),
    "torch._utils _rebuild_parameter": _Function(_rebuild_parameter),
} | {path: _StorageType(dtype) for path, dtype in _STORAGES.items()}

_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("PROTO", "FRAME", "STOP"), _Machine.skip),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1"), _Machine.push),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINUNICODE", "BINFLOAT"), _Machine.push),
    **dict.fromkeys(("BINPUT", "LONG_BINPUT", "MEMOIZE"), _Machine.put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine.get),
    "NONE": lambda machine, _: machine.push(None),
    "NEWTRUE": lambda machine, _: machine.push(True),
    "NEWFALSE": lambda machine, _: machine.push(False),
    "EMPTY_DICT": lambda machine, _: machine.push({}),
    "EMPTY_LIST": lambda machine, _: machine.push([]),
    "EMPTY_TUPLE": lambda machine, _: machine.push(()),
    "TUPLE1": lambda machine, _: machine.make_tuple(1),
    "TUPLE2": lambda machine, _: machine.make_tuple(2),
    "TUPLE3": lambda machine, _: machine.make_tuple(3),
    "TUPLE": _Machine.make_tuple,
    "MARK": _Machine.mark,
    "GLOBAL": _Machine.push_global,
    "STACK_GLOBAL": _Machine.pop_global,
    "BINPERSID": _Machine.load_storage,
    "REDUCE": _Machine.call,
    "BUILD": _Machine.ignore_state,
    "APPEND": _Machine.append,
    "APPENDS": _Machine.append_items,
    "SETITEM": _Machine.set_item,
    "SETITEMS": _Machine.set_items,
}

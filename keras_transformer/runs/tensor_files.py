"""Read tensors from untrusted safetensors, NumPy and PyTorch files.

As with `torch.load(weights_only=True)`, a pickle may use only the few names that a dict of tensors
needs. PyTorch does not have to be installed.
"""

import contextlib
import dataclasses
import io
import math
import os
import pickle
import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np

from keras_transformer.errors import UserInputError, refuse, reject
from keras_transformer.input_files import open_archive, open_ordinary, read_array_header, reading
from keras_transformer.installation import requiring
from keras_transformer.types import PathLike

# A tensor needs about 200 bytes. In a hostile pickle, one byte can use up to 64 bytes of memory.
MOST_PICKLE_BYTES = 1 << 20
MOST_HEADER_BYTES = 1 << 22  # of safetensors: about 100 bytes per tensor
SCALE = ".scale"  # suffix of the name of an int8 tensor's divisor in safetensors
_LARGEST = (1 << 63) - 1
# For each type: how it is read, its safetensors name, and its PyTorch storage name, if any. The
# keys are NumPy names; bfloat16 is the high half of a float32.
_TYPES = {
    "float64": ("f8", "F64", "Double"),
    "float32": ("f4", "F32", "Float"),
    "float16": ("f2", "F16", "Half"),
    "bfloat16": ("u2", "BF16", "BFloat16"),
    "int64": ("i8", "I64", "Long"),
    "int32": ("i4", "I32", "Int"),
    "int16": ("i2", "I16", "Short"),
    "int8": ("i1", "I8", "Char"),
    "uint64": ("u8", "U64", None),
    "uint32": ("u4", "U32", None),
    "uint16": ("u2", "U16", None),
    "uint8": ("u1", "U8", "Byte"),
    "bool": ("u1", "BOOL", "Bool"),
}
# The operations written by `torch.save` that need no checks.
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
    """A sequence of numbers in an archive entry.

    Attributes:
        dtype: NumPy's name for the dtype, or `"bfloat16"`.
        key: name of the entry in the `data` folder.
        size: declared number of elements.
    """

    dtype: str
    key: str
    size: int

    @property
    def item_size(self) -> int:
        """Size of an element in bytes."""
        return _raw_type(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class TorchTensor:
    """A view of a storage, as declared by the pickle and not checked against the file.

    Attributes:
        storage: storage that contains the elements.
        offset: index of the first element.
        shape: the sizes of the axes.
        strides: the distance between neighbors along each axis, in elements.
    """

    storage: TorchStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


class _TensorUnpickler(pickle._Unpickler):
    """An unpickler limited to the names that tensors need and the operations of `torch.save`.

    It extends Python's pure-Python unpickler. The C unpickler allocates memory for any index in a
    pickle and hashes anything that a pickle uses as a key.
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
        """Ignore the `_metadata` attribute of a state dict."""
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
    """Require a valid size, offset or stride, and return it."""
    if type(value) is not int or not 0 <= value <= _LARGEST:
        raise ValueError("a size, an offset or a stride of a tensor is not an integer >= 0")
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
    """Replace `torch._utils._rebuild_tensor_v2`, ignoring gradients and hooks."""
    if not isinstance(storage, TorchStorage):
        raise ValueError("a tensor has no storage")
    tensor = TorchTensor(storage, _index(offset), _indices(shape), _indices(strides))
    _require(len(tensor.shape) == len(tensor.strides), "a tensor does not have one stride per axis")
    return tensor


def _rebuild_parameter(tensor: object, *_: object) -> TorchTensor:
    """Replace `torch._utils._rebuild_parameter` and return the parameter's tensor."""
    if not isinstance(tensor, TorchTensor):
        raise ValueError("a parameter has no tensor")
    return tensor


_NAMES: dict[tuple[str, str], object] = {
    ("collections", "OrderedDict"): _ordered_dict,
    ("torch._utils", "_rebuild_tensor_v2"): _rebuild_tensor,
    ("torch._utils", "_rebuild_parameter"): _rebuild_parameter,
} | {
    ("torch", f"{kind}Storage"): _StorageType(dtype)
    for dtype, (_, _, kind) in _TYPES.items()
    if kind is not None
}


MOST_TENSORS = 1 << 16
PICKLE = "data.pkl"  # in a PyTorch archive
_OLD_TORCH = pickle.PROTO + b"\x02" + pickle.LONG1  # start of the magic number before 1.6
_BYTE_ORDERS = {b"little": "<", b"big": ">"}
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # of an entry in a zip archive
_MOST_AXES = 32
_MOST_ELEMENTS = 1 << 60  # of a shape, counting zeros as ones; NumPy's limit
_WIDENED = {"float64": "float32", "float16": "float32"}


@dataclasses.dataclass(frozen=True, slots=True)
class StoredTensor:
    """The location of a tensor in a file, created and checked by `stored_tensor`."""

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in elements
    span: int  # number of elements from the first to the last
    start: int  # first byte in the file
    order: str  # byte order: "<" or ">"
    checksum: tuple[int, int] | None = None  # CRC-32 of header, and of header with tensor
    scale: "StoredTensor | None" = None  # divisor for the tensor, each row or each channel


@dataclasses.dataclass(frozen=True, slots=True)
class _Member:
    """The location of a zip archive entry in the file."""

    start: int
    size: int
    checksum: int


class TensorFile:
    """An open tensor file, returned by `open_tensors`. Tensors are read one at a time.

    Attributes:
        path: the path as given to `open_tensors`.
    """

    def __init__(
        self, path: PathLike, file: io.BufferedReader, tensors: dict[str, StoredTensor]
    ) -> None:
        self.path = path
        self._file = file
        self._tensors = tensors

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the tensors in file order."""
        return tuple(self._tensors)

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a tensor, without reading it."""
        return self._find(name).shape

    def dtype(self, name: str) -> str:
        """Return a tensor's NumPy dtype name or `"bfloat16"`; "float32" if it has a scale."""
        stored = self._find(name)
        return stored.dtype if stored.scale is None else "float32"

    def read(self, name: str) -> np.ndarray:
        """Return a tensor as a new C-contiguous array.

        Args:
            name: a name in `names`.

        Returns:
            The array. Floats, and integers with a scale, are converted to float32; other integers
            and booleans keep their type.

        Raises:
            UserInputError: the tensor is missing, the file has changed or is truncated, or a scale
                is not positive.
        """
        stored = self._find(name)
        with reported_faults(self.path, f"The tensor `{one_line(name)}` of {self.path} is damaged"):
            if stored.scale is None:
                return _widen(stored, _read(self._file, stored))
            shape = _scale_shape(stored.scale.shape, stored.shape)
            scale = _widen(stored.scale, _read(self._file, stored.scale)).astype("float32")
            if not (np.isfinite(scale).all() and (scale > 0).all()):
                raise ValueError("its scale is not positive")
            values = _widen(stored, _read(self._file, stored)).astype("float32", order="C")
            with np.errstate(over="ignore"):  # infinite weights are refused later
                values /= scale.reshape(shape)
            return values

    def weights(self, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Return a model weight, which must have the given shape and finite values.

        Raises:
            UserInputError: the tensor is missing, or its shape, dtype or values are invalid.
        """
        stored, place = self._find(name), f"The tensor {name} in {self.path}"
        if stored.shape != shape:
            reject(f"{place} must have the shape {shape}", shape=stored.shape)
        if "float" not in self.dtype(name):
            raise UserInputError(
                f"{place} must contain floating-point numbers. Received: dtype={stored.dtype}"
            )
        value = self.read(name)
        if not np.isfinite(value).all():
            raise UserInputError(f"{place} has values that are not finite.")
        return value

    def _find(self, name: str) -> StoredTensor:
        if name not in self._tensors:
            raise UserInputError(f"The file {self.path} lacks the tensor {one_line(name)}.")
        return self._tensors[name]


_File = TypeVar("_File", bound=TensorFile)


def open_tensors(path: PathLike) -> contextlib.AbstractContextManager[TensorFile]:
    """Open a tensor file and check its declarations, without reading any tensor.

    The file may be untrusted. No code in the file is executed, and declared sizes are compared with
    the file size before memory is allocated. PyTorch does not have to be installed.

    Args:
        path: `model.safetensors`; `pytorch_model.bin`, a dict of tensors saved with `torch.save` in
            PyTorch 1.6 or later; or `model.npz` from Marian or NumPy.

    Returns:
        A context manager for the open `TensorFile`.

    Raises:
        UserInputError: the file cannot be read, is damaged, or contains anything except numeric
            tensors; or the `safetensors` package is required but not installed.

    Example:

    ```python
    with open_tensors("opus-mt-en-de/model.safetensors") as tensors:
        for name in tensors.names:
            print(name, tensors.shape(name), tensors.read(name).mean())
    ```
    """
    find = _FORMATS.get(Path(path).suffix)
    if find is None:
        refuse("path", f"end in {', '.join(_FORMATS)}", os.fspath(path))

    def read(file: io.BufferedReader) -> TensorFile:
        tensors = find(path, file)
        check_number(len(tensors))
        return TensorFile(path, file, tensors)

    return opened(path, f"The file {path} is not readable as {Path(path).suffix}", read)


@contextlib.contextmanager
def opened(
    path: PathLike, fault: str, read: Callable[[io.BufferedReader], _File]
) -> Iterator[_File]:
    """Open a regular file and parse it with `read`. Error messages start with `fault`."""
    with contextlib.ExitStack() as stack:
        with reported_faults(path, fault):
            found = read(stack.enter_context(open_ordinary(path)))
        yield found


def _find_in_safetensors(path: PathLike, file: io.BufferedReader) -> dict[str, StoredTensor]:
    """Locate the tensors in a safetensors file. The `safetensors` package checks the header."""
    with requiring("interop", f"Reading {path} needs the safetensors package"):
        from safetensors import safe_open
    tensors = {}
    names = {code: name for name, (_, code, _) in _TYPES.items()}
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    length = int.from_bytes(file.read(8), "little")
    if length > MOST_HEADER_BYTES:
        raise ValueError(f"its header has {length:,} bytes, more than {MOST_HEADER_BYTES:,}")
    with safe_open(path, framework="numpy") as header:
        start = 8 + length
        # The format has no gaps: each tensor starts where the previous tensor ends.
        for name in header.offset_keys():
            tensor = header.get_slice(name)
            dtype = names.get(tensor.get_dtype(), tensor.get_dtype())
            tensors[name] = stored_tensor(name, dtype, tuple(tensor.get_shape()), None, start, size)
            start += tensors[name].span * _raw_type(dtype).itemsize
    for name in [name for name in tensors if f"{name}{SCALE}" in tensors]:
        if (tensors[name].dtype, tensors[f"{name}{SCALE}"].dtype) == ("int8", "float32"):
            tensors[name] = dataclasses.replace(tensors[name], scale=tensors.pop(f"{name}{SCALE}"))
    return tensors


def _find_in_torch(path: PathLike, file: io.BufferedReader) -> dict[str, StoredTensor]:
    """Locate the tensors declared in the pickle of a PyTorch file."""
    if file.read(len(_OLD_TORCH)) == _OLD_TORCH:
        raise UserInputError(
            f"The file {path} has the format of PyTorch before 1.6. Convert it with PyTorch: "
            f"torch.save(torch.load(path, weights_only=True), path)"
        )
    members = _members(path, file)
    folders = [folder for folder, _, name in (n.partition("/") for n in members) if name == PICKLE]
    if len(folders) != 1:
        raise ValueError(f"it has {len(folders)} entries {PICKLE}, not one")
    (folder,) = folders
    order = "<"
    if f"{folder}/byteorder" in members:
        order = _BYTE_ORDERS[_read_member(file, members[f"{folder}/byteorder"])]
    content = _read_member(file, members[f"{folder}/{PICKLE}"])
    state = _TensorUnpickler(io.BytesIO(content)).load()
    _require(isinstance(state, dict), "its pickle must be a dict of tensors")
    tensors = {}
    for name, tensor in state.items():
        kind = type(tensor).__name__
        fault = f"`{name}` is of type {kind}; save only a dict of names and tensors"
        _require(isinstance(tensor, TorchTensor), fault)
        storage = tensor.storage
        member = members.get(f"{folder}/data/{storage.key}")
        if member is None or storage.size * storage.item_size > member.size:
            raise ValueError(f"the tensor `{name}` has a storage that is missing or too small")
        start = member.start + tensor.offset * storage.item_size
        end = member.start + storage.size * storage.item_size
        tensors[name] = stored_tensor(
            name, storage.dtype, tensor.shape, tensor.strides, start, end, order
        )
    return tensors


def _find_in_npz(path: PathLike, file: io.BufferedReader) -> dict[str, StoredTensor]:
    """Locate the arrays in a NumPy archive."""
    tensors = {}
    for member_name, member in _members(path, file).items():
        name = member_name.removesuffix(".npy")
        if name in tensors:
            raise ValueError(f"the tensor `{name}` occurs twice")
        file.seek(member.start)
        shape, by_columns, dtype = read_array_header(file, f"the tensor `{name}`")
        start = file.tell()
        file.seek(member.start)
        checksum = zlib.crc32(file.read(start - member.start)), member.checksum
        strides = row_strides(shape[::-1])[::-1] if by_columns else row_strides(shape)
        order = ">" if dtype.str.startswith(">") else "<"
        end = member.start + member.size
        stored = stored_tensor(name, dtype.name, shape, strides, start, end, order)
        if start + stored.span * dtype.itemsize != end:
            raise ValueError(f"the tensor `{name}` does not have the length of its shape")
        tensors[name] = dataclasses.replace(stored, checksum=checksum)
    return tensors


def _members(path: PathLike, file: io.BufferedReader) -> dict[str, _Member]:
    """Return the entries of a zip archive by name. They must be uncompressed."""
    with open_archive(path) as archive:
        entries = archive.infolist()
    check_number(len(entries))
    size = file.seek(0, os.SEEK_END)
    members = {}
    for entry in entries:
        file.seek(entry.header_offset)
        signature, name_length, extra_length = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
        start = file.tell() + name_length + extra_length
        if signature != b"PK\x03\x04" or start + entry.file_size > size:
            raise ValueError(f"its entry {entry.filename} is cut off or damaged")
        if entry.filename in members:
            raise ValueError(f"its entry {entry.filename} occurs twice")
        members[entry.filename] = _Member(start, entry.file_size, entry.CRC)
    return members


def _read_member(file: io.BufferedReader, member: _Member) -> bytes:
    """Read a small archive entry. Its checksum is not verified, as PyTorch may omit checksums."""
    if member.size > MOST_PICKLE_BYTES:
        raise ValueError(f"its pickle has {member.size:,} bytes, more than {MOST_PICKLE_BYTES:,}")
    file.seek(member.start)
    return file.read(member.size)


def _scale_shape(scale: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a tensor's scale that broadcasts to the shape of the tensor."""
    numbers, ones = math.prod(scale), (1,) * len(shape[1:])
    if numbers == 1:
        return ()
    if ones and scale == (*ones, shape[-1]):  # one for each column
        return scale
    if (numbers,) != shape[:1]:
        raise ValueError(f"its scale has {numbers:,} numbers, neither 1 nor one for each row")
    return (numbers, *ones)


def row_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a C-contiguous array, in elements."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def stored_tensor(
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    start: int,
    end: int,
    order: str = "<",
) -> StoredTensor:
    """Return a tensor stored in bytes `start` to `end` of a file, after checking that it fits.

    Without `strides`, the tensor is a C-contiguous array.
    """
    if dtype not in _TYPES:
        raise ValueError(f"the tensor `{name}` is of type {dtype}")
    if len(shape) > _MOST_AXES:
        raise ValueError(f"the tensor `{name}` has {len(shape):,} axes, more than {_MOST_AXES}")
    is_small = math.prod(max(n, 1) for n in shape) < _MOST_ELEMENTS
    if min(shape, default=0) < 0 or not is_small:
        raise ValueError(f"the tensor `{name}` has an impossible shape")
    count = math.prod(shape)
    rows = row_strides(shape)
    # PyTorch uses arbitrary strides for axes with fewer than two elements.
    strides = tuple(
        own if size > 1 and count else row
        for size, own, row in zip(shape, strides or rows, rows, strict=True)
    )
    span = count and 1 + sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
    places = (end - start) // _raw_type(dtype).itemsize
    # A stride of 0 repeats elements, so a huge shape could have a short span.
    if max(span, count) > places:
        raise ValueError(
            f"the tensor `{name}` has {max(span, count):,} elements and room for {max(places, 0):,}"
        )
    return StoredTensor(dtype, shape, strides, span, start, order)


def _raw_type(dtype: str, order: str = "<") -> np.dtype:
    raw, _, _ = _TYPES[dtype]
    return np.dtype(order + raw)


def _read(file: io.BufferedReader, stored: StoredTensor) -> np.ndarray:
    """Read a tensor with the dtype and strides stored in the file."""
    is_contiguous = stored.strides == row_strides(stored.shape)
    raw_type = _raw_type(stored.dtype, stored.order)
    array = np.empty(stored.shape if is_contiguous else stored.span, raw_type)
    content = array.reshape(-1).view(np.uint8).data
    file.seek(stored.start)
    if file.readinto(content) < content.nbytes:
        raise EOFError("the file ends early")
    if stored.checksum and zlib.crc32(content, stored.checksum[0]) != stored.checksum[1]:
        raise ValueError("its checksum differs")
    if is_contiguous:
        return array
    strides = [stride * raw_type.itemsize for stride in stored.strides]
    return np.ndarray(stored.shape, raw_type, array, strides=strides)


def _widen(stored: StoredTensor, raw: np.ndarray) -> np.ndarray:
    """Return an array that owns its memory and has a dtype that supports NumPy arithmetic."""
    if stored.dtype == "bfloat16":
        widened = np.empty(stored.shape, np.float32)
        np.left_shift(raw, np.uint32(16), out=widened.view(np.uint32))
        return widened
    with np.errstate(all="ignore"):  # values beyond float32 become infinite
        array = raw.astype(_WIDENED.get(stored.dtype, stored.dtype), order="C", copy=False)
    return array if array.flags.owndata else array.copy()


def check_number(tensors: int) -> None:
    """Refuse a number of tensors that could exhaust memory."""
    if tensors > MOST_TENSORS:
        raise ValueError(f"it has {tensors:,} tensors, more than {MOST_TENSORS:,}")


def one_line(text: object) -> str:
    """Shorten text from a file for a message, replacing line breaks and control characters."""
    return "".join(c if c.isprintable() else " " for c in str(text)[:200])


@contextlib.contextmanager
def reported_faults(path: PathLike, fault: str) -> Iterator[None]:
    """Convert any exception, such as one caused by damaged data, to a `UserInputError`."""
    try:
        with reading(path):
            yield
    except UserInputError:
        raise
    except MemoryError as error:
        raise UserInputError(f"{fault}: it does not fit into memory.") from error
    except Exception as error:
        reason = one_line(error) or type(error).__name__
        raise UserInputError(f"{fault}: {reason.rstrip('.')}.") from error


_FORMATS: dict[str, Callable[[PathLike, io.BufferedReader], dict[str, StoredTensor]]] = {
    ".safetensors": _find_in_safetensors,
    ".bin": _find_in_torch,
    ".npz": _find_in_npz,
}

"""`model.bin` of CTranslate2, which may be hostile: variables by name, of all versions from 1 to 6.

Integers are little-endian. A file has its version, the name and the revision of its specification,
its variables one after another (name, shape, type, length, content), and aliases of variables.

Reference: `src/models/model.cc` of CTranslate2.
"""

import contextlib
import dataclasses
import io
import math
import os
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_ordinary
from keras_transformer.files.tensor_files import MOST_TENSORS, reported_faults

_NEWEST = 6
_MOST_AXES = 8
_TYPES = ("float32", "int8", "int16", "int32", "float16", "bfloat16")
_OF_SIZE = {4: "float32", 1: "int8", 2: "int16"}  # before version 4, which says no type
_ITEM_SIZES = {"float32": 4, "int8": 1, "int16": 2, "int32": 4, "float16": 2, "bfloat16": 2}
SCALE = "_scale"  # of the name of what a matrix of integers is divided by
# Names in version 1, those of OpenNMT-tf, in this order.
_RENAMED = (
    (r"^transformer/|:0$", ""),
    (r"^decoder/dense/", "decoder/projection/"),
    (r"w_embs", "embeddings/weight"),
    (r"^encoder/(layer_\d+)/multi_head/", r"encoder/\1/self_attention/"),
    (r"^decoder/(layer_\d+)/multi_head/", r"decoder/\1/attention/"),
    (r"masked_multi_head", "self_attention"),
    (r"conv1d_(\d+)", r"linear_\1"),
    (r"conv1d", "linear_0"),
    (r"kernel", "weight"),
    (r"LayerNorm", "layer_norm"),
)


@dataclasses.dataclass(frozen=True, slots=True)
class _Variable:
    dtype: str
    shape: tuple[int, ...]
    start: int  # byte of the file


class CTranslate2File:
    """An open file; `open_ctranslate2` makes it. Variables are read one at a time.

    Attributes:
        path: the file.
        specification: name of the kind of model, such as "TransformerSpec"; empty in version 1.
        names: names of the variables, including aliases, without the scales of other variables.
    """

    def __init__(
        self,
        path: Path,
        specification: str,
        file: io.BufferedReader,
        variables: dict[str, _Variable],
    ) -> None:
        self.path = path
        self.specification = specification
        self._file = file
        self._variables = variables
        self.names = dict.fromkeys(
            name
            for name in variables
            if not (name.endswith(SCALE) and name.removesuffix(SCALE) in variables)
        ).keys()

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a variable, without reading it."""
        return self._variables[name].shape

    def dtype(self, name: str) -> str:
        """Return the type of a variable in the file, such as "int8" or "bfloat16"."""
        return self._variables[name].dtype

    def is_same(self, name: str, other: str) -> bool:
        """Whether two names are of one variable."""
        return self._variables[name] == self._variables[other]

    def scalar(self, name: str, default: float) -> float:
        """Return the value of a variable without axes, or the default if the file lacks it."""
        if name not in self._variables:
            return default
        if self.shape(name):
            raise UserInputError(f"The variable {name[:100]!r} of {self.path} must be one number.")
        return float(self.read(name))

    def read(self, name: str) -> np.ndarray:
        """Return a variable as a new array; numbers of 8 and 16 bits with a scale as float32.

        Raises:
            UserInputError: the file ends early, or a scale is not positive.
        """
        variable = self._variables[name]
        with reported_faults(self.path, f"The variable {name[:100]!r} of {self.path} is damaged"):
            values = self._raw(variable)
            if f"{name}{SCALE}" not in self._variables or variable.dtype not in ("int8", "int16"):
                return values
            scale = self._raw(self._variables[f"{name}{SCALE}"]).astype("float32")
            if not (np.isfinite(scale).all() and (scale > 0).all()):
                raise ValueError("its scale is not positive")
            if scale.size > 1:  # one for each row
                scale = scale.reshape(-1, *(1 for _ in variable.shape[1:]))
            return values.astype("float32") / scale

    def _raw(self, variable: _Variable) -> np.ndarray:
        count = math.prod(variable.shape)
        self._file.seek(variable.start)
        content = self._file.read(count * _ITEM_SIZES[variable.dtype])
        if variable.dtype == "bfloat16":
            halves = np.frombuffer(content, "<u2", count).astype("uint32") << 16
            return halves.view("float32").reshape(variable.shape)
        values = np.frombuffer(content, np.dtype(variable.dtype).newbyteorder("<"), count)
        dtype = "float32" if variable.dtype == "float16" else variable.dtype
        return values.reshape(variable.shape).astype(dtype)


@contextlib.contextmanager
def open_ctranslate2(path: Path) -> Iterator[CTranslate2File]:
    """Open a file after checking what it declares against its size; no variable is read yet.

    Raises:
        UserInputError: the file cannot be read, is damaged, or has a newer version.
    """
    with contextlib.ExitStack() as stack:
        with reported_faults(path, f"The file {path} is no model of CTranslate2, or damaged"):
            file = stack.enter_context(open_ordinary(path))
            specification, variables = _variables(file)
        yield CTranslate2File(path, specification, file, variables)


def _variables(file: io.BufferedReader) -> tuple[str, dict[str, _Variable]]:
    """The name of the specification, and the variables by name."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    version = _integer(file, 4)
    if not 1 <= version <= _NEWEST:
        raise ValueError(f"it has version {version}; versions from 1 to {_NEWEST} are read")
    specification = ""
    if version >= 2:
        specification = _text(file)
        _integer(file, 4)  # the revision
    variables: dict[str, _Variable] = {}
    for _ in range(_number(file)):
        name = _text(file)
        if version == 1:
            name = _renamed(name)
        if name in variables:
            raise ValueError(f"the variable {name[:100]!r} is there twice")
        variables[name] = variable = _variable(file, version)
        end = variable.start + math.prod(variable.shape) * _ITEM_SIZES[variable.dtype]
        if end > size:
            raise ValueError(f"the variable {name[:100]!r} does not fit into the file")
        file.seek(end)
    if version >= 3:
        for _ in range(_number(file)):
            alias, name = _text(file), _text(file)
            if name not in variables:
                raise ValueError(f"the alias {alias[:100]!r} is of no variable")
            variables[alias] = variables[name]
    return specification, variables


def _variable(file: io.BufferedReader, version: int) -> _Variable:
    axes = _integer(file, 1)
    if axes > _MOST_AXES:
        raise ValueError(f"a variable has {axes} axes")
    shape = tuple(_integer(file, 4) for _ in range(axes))
    number = _integer(file, 1)
    length = _integer(file, 4)
    dtype = _OF_SIZE.get(number) if version < 4 else dict(enumerate(_TYPES)).get(number)
    if dtype is None:
        raise ValueError(f"a variable has the type {number}")
    items = length if version < 4 else length // _ITEM_SIZES[dtype]
    if math.prod(shape) != items:
        raise ValueError(f"a variable of shape {shape} has {items:,} numbers")
    return _Variable(dtype, shape, file.tell())


def _renamed(name: str) -> str:
    for pattern, new in _RENAMED:
        name = re.sub(pattern, new, name)
    return name


def _integer(file: io.BufferedReader, size: int) -> int:
    content = file.read(size)
    if len(content) < size:
        raise EOFError("it ends early")
    return int.from_bytes(content, "little")


def _number(file: io.BufferedReader) -> int:
    number = _integer(file, 4)
    if number > MOST_TENSORS:
        raise ValueError(f"it has {number:,} variables, more than {MOST_TENSORS:,}")
    return number


def _text(file: io.BufferedReader) -> str:
    length = _integer(file, 2)
    content = file.read(length)
    if len(content) < length:
        raise EOFError("it ends early")
    return content.rstrip(b"\0").decode("utf-8")

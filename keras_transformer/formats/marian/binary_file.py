"""Marian's binary tensor files (float32 and Bergamot's int8), which may be malicious.

A file starts with the version, 1, and the number of tensors. Each tensor then has a header with its
type and the lengths of its name, shape and contents. The headers are followed by all names, all
shapes and (from an aligned offset) all contents. Integers are little-endian.

Reference: `src/common/binary.cpp` in Marian, and intgemm for 8-bit matrices.
"""

import contextlib
import dataclasses
import functools
import gzip
import io
import itertools
import math
import os
import tempfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.input_files import Unpacked, entries_of, open_ordinary
from keras_transformer.installation import requiring
from keras_transformer.runs.tensor_files import (
    StoredTensor,
    TensorFile,
    check_number,
    opened,
    reported_faults,
    row_strides,
    stored_tensor,
)

VERSION = 1
FLOAT32, INT8, INTGEMM8 = 0x0404, 0x0101, 0x4101  # Marian types; the low byte is the size
ACTIVATION_SCALE = "_QuantMultA"  # suffix of the name of a matrix's input scale
_ALIGNMENT = 256  # in bytes, for contents
_MOST_NAME = 1000
_MOST_AXES = 8
_TABLE = "Wemb"  # substring of embedding names


def open_marian_binary(path: Path) -> contextlib.AbstractContextManager[TensorFile]:
    """Check that the declared tensors fit the file size, and open the file without reading tensors.

    8-bit matrices are read as float32.

    Raises:
        UserInputError: the file cannot be read, is damaged or contains an unsupported tensor type.
    """
    fault = f"The file {path} is not a Marian binary file, or it is damaged"
    return opened(path, fault, functools.partial(_read, path))


def _read(path: Path, file: io.BufferedReader) -> TensorFile:
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    version, number = _integers(file, 2)
    if version != VERSION:
        raise ValueError(f"it has version {version}, not {VERSION}")
    check_number(number)
    heads = [_integers(file, 4) for _ in range(number)]
    names = [_name(file, length) for length, *_ in heads]
    if len(set(names)) < number:
        raise ValueError("a tensor occurs twice")
    shapes = [_shape(file, axes) for _, _, axes, _ in heads]
    (gap,) = _integers(file, 1)
    start = file.tell() + gap
    tensors = {}
    for name, shape, (_, kind, _, length) in zip(names, shapes, heads, strict=True):
        if kind not in (FLOAT32, INT8, INTGEMM8):
            raise UserInputError(
                f"The tensor {name[:100]!r} of {path} has Marian's type {kind:#x}, which is not "
                "supported. Supported types: float32 and intgemm8."
            )
        end = start + length
        if end > size:
            raise ValueError(f"the tensor {name[:100]!r} does not fit into the file")
        tensors[name] = _stored(name, kind, shape, start, end)
        start = end
    return TensorFile(path, file, tensors)


def _stored(name: str, kind: int, shape: tuple[int, ...], start: int, end: int) -> StoredTensor:
    if kind != INTGEMM8:
        dtype = "float32" if kind == FLOAT32 else "int8"
        return stored_tensor(name, dtype, shape, row_strides(shape), start, end)
    strides = row_strides(shape[::-1])[::-1] if _is_transposed(name) else row_strides(shape)
    place = start + math.prod(shape)
    scale = stored_tensor(name, "float32", (), (), place, end)
    found = stored_tensor(name, "int8", shape, strides, start, place)
    return dataclasses.replace(found, scale=scale)


def write_marian_binary(
    file: IO[bytes], tensors: Mapping[str, np.ndarray], in_8_bits: Collection[str] = ()
) -> None:
    """Write tensors, sorted by name, to a file for Marian and `open_marian_binary`.

    Args:
        file: open file, written from the beginning.
        tensors: names mapped to float32 or int8 arrays.
        in_8_bits: names of float32 matrices to write in 8 bits, as integers from -127 to 127 with a
            divisor.
    """
    names = sorted(tensors)
    kinds = [_kind(tensors[name], name in in_8_bits) for name in names]
    sizes = [
        _padded(tensors[name].size * (kind & 0xFF) + 4 * (kind == INTGEMM8))
        for name, kind in zip(names, kinds, strict=True)
    ]
    shapes = [tensors[name].shape for name in names]
    heads = [
        (len(name.encode()) + 1, kind, len(shape), size)
        for name, kind, shape, size in zip(names, kinds, shapes, sizes, strict=True)
    ]
    head = np.array([VERSION, len(names), *itertools.chain(*heads)], "<u8").tobytes()
    head += b"".join(name.encode() + b"\0" for name in names)
    head += np.array([*itertools.chain(*shapes)], "<i4").tobytes()
    start = _padded(len(head) + 8)
    file.write(head + np.array(start - len(head) - 8, "<u8").tobytes())
    file.write(bytes(start - len(head) - 8))
    for name, kind, size in zip(names, kinds, sizes, strict=True):
        content = _content(name, tensors[name], kind)
        file.write(content + bytes(size - len(content)))


def _kind(tensor: np.ndarray, in_8_bits: bool) -> int:
    return INT8 if tensor.dtype == "int8" else INTGEMM8 if in_8_bits else FLOAT32


def _content(name: str, tensor: np.ndarray, kind: int) -> bytes:
    if kind != INTGEMM8:
        return tensor.astype("<f4" if kind == FLOAT32 else "int8").tobytes()
    # A matrix of zeros also needs a scale.
    scale = np.float32(127) / np.maximum(np.abs(tensor).max(), np.float32(1e-30))
    numbers = np.rint(np.clip(tensor * scale, -127, 127)).astype("int8")
    numbers = numbers.T if _is_transposed(name) else numbers
    return numbers.tobytes() + scale.astype("<f4").tobytes()


def _is_transposed(name: str) -> bool:
    """Return whether an 8-bit matrix is stored transposed; only embeddings are not."""
    return _TABLE not in name


def _padded(size: int) -> int:
    return size + -size % _ALIGNMENT


def _integers(file: io.BufferedReader, number: int, kind: str = "<u8") -> list[int]:
    content = file.read(number * np.dtype(kind).itemsize)
    found = np.frombuffer(content, kind).tolist()
    if len(found) < number:
        raise EOFError("it ends early")
    return found


def _name(file: io.BufferedReader, length: int) -> str:
    if not 0 < length <= _MOST_NAME:
        raise ValueError(f"a tensor has a name of {length:,} bytes")
    return file.read(length).rstrip(b"\0").decode("utf-8")


def _shape(file: io.BufferedReader, axes: int) -> tuple[int, ...]:
    if axes > _MOST_AXES:
        raise ValueError(f"a tensor has {axes:,} axes")
    shape = tuple(_integers(file, axes, "<i4"))
    if min(shape, default=1) < 1:
        raise ValueError(f"a tensor has the shape {shape}")
    return shape


# Search options that Firefox and Bergamot's programs use without a configuration.
DECODER = {"beam-size": "1", "normalize": "1.0"}
_COMPRESSED = (".gz", ".zst")
# The files to read, with the maximum number of each.
_WANTED = {
    "model*.bin": 1,
    "lex.*.bin": 1,
    "*vocab*.spm": 2,
    "config*.yml": 1,
    "decoder.yml": 1,
    "model*.npz": 1,
}


@contextlib.contextmanager
def unpacked_bergamot(directory: Path) -> Iterator[Path]:
    """Yield the folder, or a temporary folder with the unpacked files if they are compressed.

    Args:
        directory: folder with model.*.bin, vocab.*.spm (or srcvocab.*.spm and trgvocab.*.spm) and,
            optionally, config.*.yml. Each file name may end in `.gz` or `.zst`.

    Raises:
        UserInputError: the folder does not exist, or a file is damaged.
    """
    if not directory.is_dir():
        raise UserInputError(f"There is no folder {directory} with a Bergamot model.")
    packed = _packed(directory)
    if not packed:
        yield directory
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        unpacked = Unpacked(sum(path.stat().st_size for path in packed))
        for path in packed:
            with (
                reported_faults(path, f"{path} cannot be unpacked"),
                open_ordinary(path) as file,
                _reader(path, file) as source,
            ):
                unpacked.write(source, folder / path.stem)
        for path in entries_of(directory):
            if path.suffix not in _COMPRESSED:
                (folder / path.name).symlink_to(path.absolute())
        yield folder


def _packed(directory: Path) -> list[Path]:
    """Return the compressed files to unpack, except those that also exist uncompressed."""
    names = {path.stem: path for path in entries_of(directory) if path.suffix in _COMPRESSED}
    found = []
    for wanted, most in _WANTED.items():
        own = [path for name, path in names.items() if Path(name).match(wanted)]
        own = [path for path in own if not os.path.lexists(path.with_suffix(""))]
        if len(own) > most:
            told = ", ".join(path.name for path in own[: most + 1])
            raise UserInputError(
                f"The folder {directory} must contain at most {most} compressed {wanted}. "
                f"Received: {told}"
            )
        found += own
    return found


def _reader(path: Path, file: io.BufferedReader) -> Any:
    if path.suffix == ".gz":
        return gzip.GzipFile(fileobj=file)
    with requiring("interop", f"Reading {path} needs the zstandard package"):
        import zstandard
    return zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(file)

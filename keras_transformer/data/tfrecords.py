"""Reading TFRecord files with their checksums, without TensorFlow."""

import io
import struct
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import open_ordinary
from keras_transformer.types import PathLike

_LENGTH = struct.Struct("<Q")
_CHECKSUM = struct.Struct("<I")
_MOST_BYTES = 1 << 20  # of a record; a pair of sentences has some hundred
# Checksums are computed for a batch of records, hundreds of times as fast as one by one.
_BATCH_RECORDS = 8192
_BATCH_BYTES = 1 << 24


def read_records(path: PathLike, count: int) -> Iterator[bytes]:
    """Yield the records of a TFRecord file, which must hold `count` of them.

    Reference: https://www.tensorflow.org/tutorials/load_data/tfrecord
    """
    seen = 0
    try:
        with open_ordinary(path) as file:
            for batch in _batches(file, path):
                records, checksums = zip(*batch, strict=True)
                if _masked(_crc32c(records)).tolist() != list(checksums):
                    raise UserInputError(f"{path} is damaged: a checksum of its records is wrong")
                seen += len(records)
                yield from records
    except OSError as error:
        raise UserInputError(f"Cannot read {path}: {error.strerror}") from error
    if seen != count:
        raise UserInputError(f"{path} is damaged: it must hold {count} records. Received: {seen}")


def _batches(file: io.BufferedReader, path: PathLike) -> Iterator[list[tuple[bytes, int]]]:
    """Yield lists of records with their checksums.

    The checksums of lengths are ignored, since a wrong length leads to a wrong record.
    """
    batch: list[tuple[bytes, int]] = []
    size = 0
    while header := file.read(_LENGTH.size + _CHECKSUM.size):
        if len(header) < _LENGTH.size + _CHECKSUM.size:
            raise UserInputError(f"{path} is cut off")
        (length,) = _LENGTH.unpack_from(header)
        if length > _MOST_BYTES:
            raise UserInputError(f"{path} is damaged: a record has {length:,} bytes")
        record, end = file.read(length), file.read(_CHECKSUM.size)
        if len(record) < length or len(end) < _CHECKSUM.size:
            raise UserInputError(f"{path} is cut off")
        batch.append((record, _CHECKSUM.unpack(end)[0]))
        size += length
        if len(batch) == _BATCH_RECORDS or size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _crc32c(records: Sequence[bytes]) -> NDArray[np.uint32]:
    """CRC-32C of several records `(records,)`, computed byte by byte for all of them at once."""
    lengths = np.fromiter(map(len, records), "int64", len(records))
    order = np.argsort(-lengths, kind="stable")
    data = np.frombuffer(b"".join(records), "uint8")
    starts = (np.cumsum(lengths) - lengths)[order]
    longer = np.searchsorted(-lengths[order], -np.arange(lengths.max()))  # than each position
    found = np.full(len(records), 0xFFFFFFFF, "uint32")
    for position, number in enumerate(longer.tolist()):
        part = found[:number]
        part[:] = _TABLE[(part ^ data[starts[:number] + position]) & 0xFF] ^ (part >> 8)
    checksums = np.empty_like(found)
    checksums[order] = ~found
    return checksums


def _masked(checksums: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """Checksums as TFRecord files store them."""
    rotated = checksums >> np.uint32(15) | checksums << np.uint32(17)
    return rotated + np.uint32(0xA282EAD8)


def _make_table() -> NDArray[np.uint32]:
    table = np.arange(256, dtype="uint32")
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ np.uint32(0x82F63B78), table >> 1)
    return table.astype("uint32")


_TABLE = _make_table()

"""Protocol buffers without the library: reading untrusted ones, and writing a field."""

from collections.abc import Iterator
from typing import Any

VARINT, BYTES, FLOAT = 0, 2, 5  # the format's types of fields; a float is returned as 4 bytes
_SIZES = {1: 8, FLOAT: 4}
_LONGEST_VARINT = 63  # bits before the last byte


def fields(message: bytes) -> Iterator[tuple[tuple[int, int], Any]]:
    """Yield `((number, type), value)` of every field; damage is a ValueError or IndexError.

    A value is an int for the type `VARINT`, bytes for the others.
    """
    place = 0
    value: int | bytes
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, place = _varint(message, place)
        elif kind == BYTES or kind in _SIZES:
            length, place = _varint(message, place) if kind == BYTES else (_SIZES[kind], place)
            value = message[place : place + length]
            if len(value) < length:
                raise ValueError("a field is cut off")
            place += length
        else:
            raise ValueError(f"a field has the type {kind}")
        yield (number, kind), value


def bytes_field(number: int, content: bytes) -> bytes:
    """A field of the type `BYTES`, to be appended to a message."""
    return _as_varint(number << 3 | BYTES) + _as_varint(len(content)) + content


def _as_varint(value: int) -> bytes:
    """An integer in groups of 7 bits, low bits first."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """An integer of 7 bits per byte, low bits first, and the position after it."""
    value = shift = 0
    while True:
        byte = message[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
        if shift > _LONGEST_VARINT:
            raise ValueError("an integer has no end")

"""Serialized protocol buffers, read without the library and without trust in them."""

VARINT, BYTES, FLOAT = 0, 2, 5  # the format's types of fields; a float is given as 4 bytes
_SIZES = {1: 8, FLOAT: 4}
_LONGEST_VARINT = 63  # bits before the last byte


def fields(message):
    """Yield `(number, type)` and value of the fields; ValueError or IndexError where damaged."""
    place = 0
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


def _varint(message, place):
    """An integer of 7 bits a byte, low ones first, and the place behind it."""
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

"""The pieces of a SentencePiece model, read from its bytes.

The library tells no piece's type and no model's; its own reader of these bytes needs `protobuf`.
"""

import dataclasses
import struct

from keras_transformer.errors import UserInputError

_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
# Types of pieces. Those that text may be cut into are normal, user-defined and unused ones.
_NORMAL, _UNKNOWN, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 4, 5, 6
# The format's types of fields.
_VARINT, _64_BITS, _BYTES, _32_BITS = 0, 1, 2, 5
_LONGEST_VARINT = 63  # bits before the last byte
# Fields in sentencepiece_model.proto: number and type. One of another type is an unknown field.
_MODEL_PIECE, _MODEL_TRAINER_SPEC = (1, _BYTES), (2, _BYTES)
_PIECE_TEXT, _PIECE_SCORE, _PIECE_TYPE = (1, _BYTES), (2, _32_BITS), (3, _VARINT)
_TRAINER_MODEL_TYPE = (3, _VARINT)


@dataclasses.dataclass(frozen=True)
class SentencePieceModel:
    """What cuts text into pieces.

    Args:
        model_type: `"unigram"`, `"bpe"`, `"word"` or `"char"`.
        ids: piece -> id, of all pieces that text may be cut into.
        scores: piece -> score, of the same.
        user_defined: frozenset of the pieces that are always one token.
        unused: frozenset of the pieces that are cut again.
        byte_ids: list of the 256 ids of bytes, or None: the model has none.
        unknown_id: id of the unknown token.
    """

    model_type: str
    ids: dict
    scores: dict
    user_defined: frozenset
    unused: frozenset
    byte_ids: list | None
    unknown_id: int

    @classmethod
    def read(cls, model_bytes):
        """Read a serialized model that the library has accepted.

        Raises:
            UserInputError: the bytes are none, or have parts of an old format.

        Example:
            >>> from keras_transformer.text import SentencePieceTokenizer
            >>> tokenizer = SentencePieceTokenizer.train(["a house"] * 3, vocabulary_size=11)
            >>> model = SentencePieceModel.read(tokenizer.model_bytes)
            >>> model.model_type, model.ids["▁"], model.unknown_id
            ('bpe', 4, 3)
        """
        pieces, model_type = [], 1
        try:
            for field, value in _fields(model_bytes):
                if field == _MODEL_PIECE:
                    pieces.append(_read_piece(value))
                elif field == _MODEL_TRAINER_SPEC:
                    model_type = dict(_fields(value)).get(_TRAINER_MODEL_TYPE, model_type)
            return cls._of(pieces, _MODEL_TYPES[model_type])
        except (IndexError, KeyError, StopIteration, ValueError, struct.error) as error:
            raise UserInputError("The tokenizer is a damaged SentencePiece model") from error

    @classmethod
    def _of(cls, pieces, model_type):
        """The model of this type; pieces are tuples of text, score and type."""
        of_type = {
            kind: {text: number for number, (text, _, type_) in enumerate(pieces) if type_ == kind}
            for kind in (_NORMAL, _UNKNOWN, _USER_DEFINED, _UNUSED, _BYTE)
        }
        ids = of_type[_NORMAL] | of_type[_USER_DEFINED] | of_type[_UNUSED]
        return cls(
            model_type=model_type,
            ids=ids,
            scores={text: pieces[number][1] for text, number in ids.items()},
            user_defined=frozenset(of_type[_USER_DEFINED]),
            unused=frozenset(of_type[_UNUSED]),
            byte_ids=[of_type[_BYTE][f"<0x{byte:02X}>"] for byte in range(256)]
            if of_type[_BYTE]
            else None,
            unknown_id=next(iter(of_type[_UNKNOWN].values())),
        )

    def spell(self, character):
        """Ids of a character that no piece holds: those of its bytes, or the unknown token's."""
        if self.byte_ids is None:
            return (self.unknown_id,)
        return tuple(self.byte_ids[byte] for byte in character.encode("utf-8"))


def _read_piece(value):
    fields = dict(_fields(value))
    text = fields[_PIECE_TEXT].decode("utf-8")
    return text, fields.get(_PIECE_SCORE, 0.0), fields.get(_PIECE_TYPE, _NORMAL)


def _fields(message):
    """Yield `(number, type)` and value of the fields of a serialized protocol buffer."""
    place = 0
    while place < len(message):
        key, place = _varint(message, place)
        number, kind = key >> 3, key & 7
        if kind == _VARINT:
            value, place = _varint(message, place)
        elif kind == _32_BITS:
            (value,) = struct.unpack_from("<f", message, place)
            place += 4
        elif kind == _64_BITS:
            (value,) = struct.unpack_from("<d", message, place)
            place += 8
        elif kind == _BYTES:
            length, place = _varint(message, place)
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

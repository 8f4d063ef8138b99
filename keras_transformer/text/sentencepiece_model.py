"""Read pieces and settings from serialized SentencePiece models.

The library does not expose piece types or model types, and its own reader requires `protobuf`.

A Marian model has one SentencePiece model per side and a shared vocabulary, which is a list of
pieces. The vocabulary is stored in the serialized SentencePiece model, in a field that
SentencePiece reserves for extensions. The complete tokenizer is therefore a single file, and other
programs can still read its pieces. App exports list the ids in a separate file.
"""

import dataclasses
import re
import struct
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Self

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.types import PathLike, SpecialTokens

MOST_PIECES = 300_000  # the largest known models have 262,144; the library uses 300 bytes per piece
_MOST_OTHER_BYTES = 1 << 20  # size of the settings; the library needs 20 times as much memory
_MOST_CHARACTERS = 10_000  # maximum length of a piece in a list
_LONGEST_PIECE = 512  # bytes, including score and type; any excess counts as settings

VARINT, BYTES, FLOAT = 0, 2, 5  # protobuf wire types; a float is returned as 4 bytes
_SIZES = {1: 8, FLOAT: 4}
_LONGEST_VARINT = 63  # number of bits before the last byte

_MODEL_TYPES = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}
# Piece types. Text is segmented into normal, user-defined and unused pieces.
_NORMAL, _UNKNOWN, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 4, 5, 6
# Fields in sentencepiece_model.proto: number and type. Fields of any other type are unknown.
_MODEL_PIECE, _MODEL_TRAINER_SPEC, _MODEL_NORMALIZER = (1, BYTES), (2, BYTES), (3, BYTES)
_PIECE_TEXT, _PIECE_SCORE, _PIECE_TYPE = (1, BYTES), (2, FLOAT), (3, VARINT)
_TRAINER_MODEL_TYPE = (3, VARINT)

_Piece = tuple[str, float, int]  # text, score and type


@dataclasses.dataclass(frozen=True)
class SentencePieceModel:
    """The pieces and types of a SentencePiece model.

    `ids` and `scores` include all pieces used for segmentation. Among these, `user_defined` pieces
    are never split, and `unused` pieces are split further. `byte_ids` are the ids of the 256 bytes,
    or None for a model without byte fallback.
    """

    model_type: str
    ids: dict[str, int]
    scores: dict[str, float]
    user_defined: frozenset[str]
    unused: frozenset[str]
    byte_ids: list[int] | None
    unknown_id: int

    @classmethod
    def read(cls, model_bytes: bytes) -> Self:
        """Parse a serialized model that the library has already accepted.

        Example:
            >>> from keras_transformer.text import SentencePieceTokenizer
            >>> tokenizer = SentencePieceTokenizer.train(["a house"] * 3, vocabulary_size=11)
            >>> model = SentencePieceModel.read(tokenizer.model_bytes)
            >>> model.model_type, model.ids["▁"], model.unknown_id
            ('bpe', 4, 3)
        """
        pieces: list[_Piece] = []
        model_type = 1
        try:
            for field, value in fields(model_bytes):
                if field == _MODEL_PIECE:
                    pieces.append(_read_piece(value))
                elif field == _MODEL_TRAINER_SPEC:
                    model_type = dict(fields(value)).get(_TRAINER_MODEL_TYPE, model_type)
            of_type = {
                kind: {text: i for i, (text, _, type_) in enumerate(pieces) if type_ == kind}
                for kind in (_NORMAL, _UNKNOWN, _USER_DEFINED, _UNUSED, _BYTE)
            }
            ids = of_type[_NORMAL] | of_type[_USER_DEFINED] | of_type[_UNUSED]
            of_bytes = of_type[_BYTE]
            return cls(
                model_type=_MODEL_TYPES[model_type],
                ids=ids,
                scores={text: pieces[number][1] for text, number in ids.items()},
                user_defined=frozenset(of_type[_USER_DEFINED]),
                unused=frozenset(of_type[_UNUSED]),
                byte_ids=[of_bytes[f"<0x{byte:02X}>"] for byte in range(256)] if of_bytes else None,
                unknown_id=next(iter(of_type[_UNKNOWN].values())),
            )
        except (IndexError, KeyError, StopIteration, ValueError) as error:
            raise UserInputError("The tokenizer is a damaged SentencePiece model") from error

    def spell(self, character: str) -> tuple[int, ...]:
        """Return the ids for an unknown character: its bytes or the unknown token."""
        if self.byte_ids is None:
            return (self.unknown_id,)
        return tuple(self.byte_ids[byte] for byte in character.encode("utf-8"))


def _read_piece(value: bytes) -> _Piece:
    found = dict(fields(value))
    text = found[_PIECE_TEXT].decode("utf-8")
    (score,) = struct.unpack("<f", found.get(_PIECE_SCORE, bytes(4)))
    return text, score, found.get(_PIECE_TYPE, _NORMAL)


def fields(message: bytes) -> Iterator[tuple[tuple[int, int], Any]]:
    """Yield `((number, type), value)` for every field; raise ValueError or IndexError if damaged.

    Values are ints for the `VARINT` type and bytes for other types.
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


def check_sizes(model_bytes: bytes) -> None:
    """Reject models that would exhaust memory when the library loads them."""
    pieces = others = 0
    try:
        for field, value in fields(model_bytes):
            if field == _MODEL_PIECE:
                pieces += 1
                others += max(0, len(value) - _LONGEST_PIECE)
            elif field[1] == BYTES and field not in (_MODEL_NORMALIZER, (FIELD, BYTES)):
                others += len(value)
            if pieces > MOST_PIECES or others > _MOST_OTHER_BYTES:
                break
    except (IndexError, ValueError) as error:
        raise UserInputError("The tokenizer is not a SentencePiece model") from error
    if not pieces:
        raise UserInputError("The tokenizer is not a SentencePiece model: it has no pieces")
    if pieces > MOST_PIECES:
        raise UserInputError(f"The tokenizer must have at most {MOST_PIECES:,} pieces")
    if others > _MOST_OTHER_BYTES:
        raise UserInputError(
            f"The tokenizer must have settings of at most {_MOST_OTHER_BYTES:,} bytes"
        )


def check_lengths(path: PathLike, pieces: Iterable[str]) -> None:
    """Reject pieces that are too long to keep copies of the vocabulary in memory."""
    if any(len(piece) > _MOST_CHARACTERS for piece in pieces):
        raise UserInputError(
            f"The vocabulary {path} must have pieces of at most {_MOST_CHARACTERS:,} characters."
        )


def bytes_field(number: int, content: bytes) -> bytes:
    """Encode a field of type `BYTES` for appending to a message."""
    return _as_varint(number << 3 | BYTES) + _as_varint(len(content)) + content


def varint_field(number: int, value: int) -> bytes:
    """Encode a field of type `VARINT` for appending to a message."""
    return _as_varint(number << 3 | VARINT) + _as_varint(value)


def float_field(number: int, value: float) -> bytes:
    """Encode a field of type `FLOAT` for appending to a message."""
    return _as_varint(number << 3 | FLOAT) + struct.pack("<f", value)


def _as_varint(value: int) -> bytes:
    """Encode an integer in groups of 7 bits, low bits first; 2**64 is added to negative values."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def _varint(message: bytes, place: int) -> tuple[int, int]:
    """Decode an integer with 7 bits per byte, low bits first; also return the next position."""
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


FIELD = 1000  # field of ModelProto within the range for extensions
TAG = r"[ \t\r\n\f]*(>>[^<>]+<<)"  # target language tag at the start of a sentence: >>deu<<


class PieceVocabulary(msgspec.Struct, frozen=True, dict=True):
    """The pieces, ordered by id, and the ids of the special tokens.

    With `right_to_left`, the tokens of a sentence are in reverse order.

    Example:
        >>> vocabulary = PieceVocabulary(("</s>", "<unk>", ">>deu<<", "▁a"), pad=4, eos=0, unk=1)
        Traceback (most recent call last):
        keras_transformer.errors.UserInputError: The vocabulary of the tokenizer is damaged
        >>> vocabulary = PieceVocabulary(("</s>", "<unk>", "▁a", "<pad>"), pad=3, eos=0, unk=1)
        >>> vocabulary.ids["▁a"], vocabulary.special_tokens.bos
        (2, 3)
    """

    pieces: tuple[str, ...]
    pad: int
    eos: int
    unk: int
    bos: int | None = None  # None if the decoder starts with padding
    right_to_left: bool = False

    def __post_init__(self) -> None:
        specials = {self.pad, self.eos, self.unk}
        if (
            len(self.ids) < len(self.pieces)
            or len(specials) < 3
            or self.bos in (self.eos, self.unk)
            or not all(0 <= i < len(self.pieces) for i in specials | {self.start})
        ):
            raise UserInputError("The vocabulary of the tokenizer is damaged")

    @property
    def start(self) -> int:
        """The id of the first decoder input."""
        return self.pad if self.bos is None else self.bos

    @classmethod
    def of(cls, model_bytes: bytes) -> Self | None:
        """Return the vocabulary stored in a serialized SentencePiece model, or None."""
        try:
            content = _content(model_bytes)
            return None if content is None else msgspec.json.decode(content, type=cls)
        except UserInputError:
            raise
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise UserInputError("The vocabulary of the tokenizer is damaged") from error

    def within(self, model_bytes: bytes) -> bytes:
        """Return the serialized SentencePiece model with this vocabulary added."""
        return model_bytes + bytes_field(FIELD, msgspec.json.encode(self))

    @cached_property
    def ids(self) -> dict[str, int]:
        """The id of each piece."""
        return {piece: number for number, piece in enumerate(self.pieces)}

    @cached_property
    def special_tokens(self) -> SpecialTokens:
        """The special tokens."""
        return SpecialTokens(pad=self.pad, bos=self.start, eos=self.eos, unk=self.unk)

    @cached_property
    def tags(self) -> tuple[str, ...]:
        """Target language tags, such as ">>deu<<"; empty with `right_to_left`."""
        if self.right_to_left:
            return ()
        return tuple(piece for piece in self.pieces if re.fullmatch(TAG, piece))

    def split_tag(self, sentence: str) -> tuple[list[int], str]:
        """Split a sentence into the id of its leading tag, if any, and the remaining text."""
        match = re.match(TAG, sentence)
        if match is None or self.right_to_left or match[1] not in self.ids:
            return [], sentence
        return [self.ids[match[1]]], sentence[match.end() :]

    @staticmethod
    def left_out(model_bytes: bytes) -> bytes:
        """Return the serialized SentencePiece model without the vocabulary added by `within`."""
        content = _content(model_bytes)
        added = b"" if content is None else bytes_field(FIELD, content)
        return model_bytes.removesuffix(added)


def _content(model_bytes: bytes) -> bytes | None:
    """Return the vocabulary JSON stored in a serialized SentencePiece model, or None."""
    try:
        found = [value for field, value in fields(model_bytes) if field == (FIELD, BYTES)]
    except (IndexError, ValueError) as error:
        raise UserInputError("The tokenizer is not a SentencePiece model") from error
    if found and found[-1].count(b",") > 2 * MOST_PIECES:
        raise UserInputError(f"The tokenizer must have at most {MOST_PIECES:,} pieces")
    return found[-1] if found else None

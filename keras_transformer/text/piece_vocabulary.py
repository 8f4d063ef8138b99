"""A vocabulary with its own ids for the pieces of a SentencePiece model, as Marian models have it.

A Marian model has a SentencePiece model for each side, and one vocabulary, a list of pieces, for
both sides. The vocabulary is stored within the bytes of the SentencePiece model, in a field that
SentencePiece reserves for extensions. So one file holds a tokenizer, and other programs can still
read its pieces. An export for apps lists the ids in a separate file.
"""

import re
from functools import cached_property
from typing import Self

import msgspec

from keras_transformer.errors import UserInputError
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.text.sentencepiece_model import BYTES, bytes_field, fields

FIELD = 1000  # of the ModelProto, in the range for extensions
TAG = r"[ \t\r\n\f]*(>>[^<>]+<<)"  # at the start of a sentence, the target language: >>deu<<


class PieceVocabulary(msgspec.Struct, frozen=True, dict=True):
    """The pieces in the order of their ids, and the ids of the special tokens.

    With `right_to_left`, a sentence's last token comes first.

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
    bos: int | None = None  # None: the decoder starts with padding
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
        """The id of the decoder's first input."""
        return self.pad if self.bos is None else self.bos

    @classmethod
    def of(cls, model_bytes: bytes) -> Self | None:
        """The vocabulary in the bytes of a SentencePiece model; None if there is none."""
        try:
            content = _content(model_bytes)
            return None if content is None else msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, IndexError, ValueError, RecursionError) as error:
            raise UserInputError("The vocabulary of the tokenizer is damaged") from error

    def within(self, model_bytes: bytes) -> bytes:
        """The bytes of a SentencePiece model with this vocabulary added."""
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
        """The tokens that name a target language, such as ">>deu<<"; none with `right_to_left`."""
        if self.right_to_left:
            return ()
        return tuple(piece for piece in self.pieces if re.fullmatch(TAG, piece))

    def split_tag(self, sentence: str) -> tuple[list[int], str]:
        """The id of the tag at the start of a sentence, if there is one, and the rest."""
        match = re.match(TAG, sentence)
        if match is None or self.right_to_left or match[1] not in self.ids:
            return [], sentence
        return [self.ids[match[1]]], sentence[match.end() :]

    @staticmethod
    def left_out(model_bytes: bytes) -> bytes:
        """The bytes of a SentencePiece model without the vocabulary that `within` put there."""
        content = _content(model_bytes)
        added = b"" if content is None else bytes_field(FIELD, content)
        return model_bytes.removesuffix(added)

    def is_special(self, number: int) -> bool:
        """Whether an id is padding, or the start or the end of a sentence."""
        return number in (self.pad, self.start, self.eos)


def _content(model_bytes: bytes) -> bytes | None:
    """The JSON of a vocabulary in the bytes of a SentencePiece model; None if there is none."""
    found = [value for field, value in fields(model_bytes) if field == (FIELD, BYTES)]
    return found[-1] if found else None

"""Codes of subword-nmt's BPE, with which older models of OPUS-MT segment text, as SentencePiece's.

The end of a word is a part of its last piece, as in SentencePiece with white space as suffix.
SentencePiece merges any two neighbors whose whole is a piece, subword-nmt only pairs of its list.
Real text does not show the difference: see docs/lab/exports.md.

Reference: Sennrich, Haddow and Birch, "Neural Machine Translation of Rare Words with Subword
    Units", 2016; https://github.com/rsennrich/subword-nmt.
"""

import re
from collections.abc import Mapping
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.input_files import read_input
from keras_transformer.formats.marian.yaml_texts import MOST_BYTES, MOST_PIECES
from keras_transformer.text.piece_vocabulary import TAG
from keras_transformer.text.sentencepiece_model import bytes_field, float_field, varint_field
from keras_transformer.text.subword_sampler import SPACE

CODES = ".bpe"
_VERSION = "#version: 0.2"
_END = "</w>"  # of a word, in the codes
_GOES_ON = "@@"  # at the end of a token of the vocabulary: the word has more
_SPECIAL = ("<unk>", "</s>", "<s>", "<pad>")
# Fields and values of sentencepiece_model.proto.
_PIECE, _TRAINER, _NORMALIZER = 1, 2, 3
_UNKNOWN, _CONTROL = 2, 3
_BPE = varint_field(3, 2)
_SPACE_AS_SUFFIX = varint_field(24, 1)
# The ids of <unk>, of a start, which is not there, of </s> and of padding.
_IDS = b"".join(varint_field(40 + place, number) for place, number in enumerate((0, -1, 1, -1)))
_IDENTITY = bytes_field(1, b"identity") + b"".join(varint_field(field, 1) for field in (3, 4, 5))


def read_bpe(path: Path, tokens: Mapping[str, int]) -> tuple[bytes, dict[str, int]]:
    """Read the codes of one side as a SentencePiece model.

    Args:
        path: a file of codes, `#version: 0.2` and a merge on each line, best first.
        tokens: the ids of the vocabulary's tokens.

    Returns:
        The bytes of the SentencePiece model, and the tokens' ids by its pieces.

    Raises:
        UserInputError: the file is missing or damaged, or a token cannot be a piece.
    """
    merges = _read_merges(path)
    pieces = {_piece(token): number for token, number in tokens.items()}
    if len(pieces) < len(tokens):
        raise UserInputError(f"The vocabulary of {path} must not have the character {SPACE}.")
    characters = {*"".join(first + second for first, second in merges).replace(_END, "")}
    characters |= {token[0] for token in pieces if len(token.removesuffix(SPACE)) == 1}
    characters.discard(SPACE)
    # Last characters take the end of their word first of all.
    ranked = [f"{character}{SPACE}" for character in sorted(characters)]
    ranked += [(first + second).replace(_END, SPACE) for first, second in merges]
    ranked += sorted(characters)
    scores: dict[str, float] = {}
    for rank, piece in enumerate(ranked):
        if piece not in _SPECIAL:
            scores.setdefault(piece, -float(rank))
    model = _piece_field("<unk>", 0.0, _UNKNOWN) + _piece_field("</s>", 0.0, _CONTROL)
    model += b"".join(_piece_field(piece, score) for piece, score in scores.items())
    model += bytes_field(_TRAINER, _BPE + _SPACE_AS_SUFFIX + _IDS)
    return model + bytes_field(_NORMALIZER, _IDENTITY), pieces


def _read_merges(path: Path) -> list[tuple[str, str]]:
    try:
        lines = read_input(path, MOST_BYTES).decode("utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError as error:
        raise UserInputError(f"{path} is damaged: it is not UTF-8.") from error
    version = lines[0].rstrip("\r ")
    if version != _VERSION:
        raise UserInputError(
            f"The codes {path} must begin with {_VERSION}. Received: {version[:50]!r}"
        )
    if len(lines) > MOST_PIECES:
        raise UserInputError(f"The codes {path} must have at most {MOST_PIECES:,} merges.")
    merges = [tuple(line.rstrip("\r ").split(" ")) for line in lines[1:]]
    for number, merge in enumerate(merges, 2):
        if len(merge) != 2 or not all(merge) or SPACE in "".join(merge):
            raise UserInputError(
                f"Line {number} of {path} must be a merge of two symbols. "
                f"Received: {' '.join(merge)[:50]!r}"
            )
    return merges  # type: ignore[return-value]  # of two each


def _piece(token: str) -> str:
    if token in _SPECIAL or re.fullmatch(TAG, token):
        return token
    return token.removesuffix(_GOES_ON) if token.endswith(_GOES_ON) else token + SPACE


def _piece_field(text: str, score: float, kind: int | None = None) -> bytes:
    content = bytes_field(1, text.encode("utf-8")) + float_field(2, score)
    return bytes_field(_PIECE, content + (b"" if kind is None else varint_field(3, kind)))

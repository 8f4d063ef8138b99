"""Where words begin and end in text and in the pieces of a vocabulary."""

import dataclasses
import functools
import itertools
import re
import sys
import unicodedata
from collections.abc import Sequence

import numpy as np

from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.subword_sampler import SPACE
from keras_transformer.types import ENDS_WORD, IS_GAP, JOINS_WORD

# Scripts that do not put spaces between words: each character is a word.
UNSPACED = (
    "\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff\u1950-\u19df\u2e80-\u2fff\u3005-\u3007"
    "\u3021-\u3029\u3040-\u30ff\u31a0-\u31bf\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua9e0-\ua9ff"
    "\uaa60-\uaa7f\uf900-\ufaff\uff66-\uff9f\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
_BYTE = re.compile("<0x[0-9A-F]{2}>")


@functools.cache
def word_pattern() -> re.Pattern[str]:
    """Return a pattern for words: letters, digits and marks, or one other character."""
    marks = [code for code in range(sys.maxunicode) if unicodedata.category(chr(code))[0] == "M"]
    groups = itertools.groupby(enumerate(marks), lambda pair: pair[1] - pair[0])
    ranges = [[code for _, code in group] for _, group in groups]
    mark = "".join(f"{chr(each[0])}-{chr(each[-1])}" for each in ranges)
    return re.compile(f"[{UNSPACED}][{mark}]*|(?:(?![{UNSPACED}])[\\w{mark}])+|[^\\w\\s]")


def is_letter(character: str) -> bool:
    """Return whether a character continues a word: a letter, digit or mark of a spaced script."""
    match = word_pattern().fullmatch(f"a{character}")
    return match is not None


def token_flags(tokenizer: SentencePieceTokenizer, vocabulary_size: int) -> np.ndarray:
    """Return which tokens end or join words, for searches with terms: int32 (vocabulary_size,).

    Args:
        tokenizer: the target tokenizer.
        vocabulary_size: number of the model's logits, at least the tokenizer's vocabulary.
    """
    flags = np.zeros(vocabulary_size, "int32")
    special = dataclasses.astuple(tokenizer.special_tokens)
    pieces = tokenizer.pieces(range(tokenizer.vocabulary_size))
    for token, piece in enumerate(pieces):
        if token in special:
            continue
        if _BYTE.fullmatch(piece):  # may be a part of a letter
            flags[token] = ENDS_WORD | JOINS_WORD
        elif piece:
            flags[token] = ENDS_WORD * is_letter(piece[-1]) + JOINS_WORD * is_letter(piece[0])
    gaps = [
        token
        for token, piece in enumerate(pieces)
        if token not in special and flags[token] == 0 and piece
    ]
    if not gaps:  # nothing separates words
        return np.zeros_like(flags)
    flags[min(gaps, key=lambda token: (pieces[token] != SPACE, token))] = IS_GAP
    return flags


def forms_of(tokenizer: SentencePieceTokenizer, text: str) -> list[list[int]]:
    """Return the tokens of a text as words of an output, after a space and without one.

    The list is empty if the vocabulary cannot write the text.
    """
    (row,) = tokenizer.encode([text])
    if not row or tokenizer.special_tokens.unk in row:
        return []
    other = form_without_space(tokenizer, row)
    return [row] if other is None else [row, other]


def form_without_space(tokenizer: SentencePieceTokenizer, row: Sequence[int]) -> list[int] | None:
    """Return the tokens of a text that follows no space, or None; the first token has the space."""
    (first,) = tokenizer.pieces(row[:1])
    if first == SPACE and len(row) > 1:
        return [*row[1:]]
    token = tokenizer.piece_ids.get(first.removeprefix(SPACE)) if first[:1] == SPACE else None
    return None if token is None else [token, *row[1:]]


class TokenWords:
    """Divides the tokens of sentences into words.

    Args:
        tokenizer: the tokenizer of the sentences.
        by_spaces: whether only spaces separate words. Otherwise, letters and digits form words, and
            any other character is a word.
    """

    def __init__(self, tokenizer: SentencePieceTokenizer, *, by_spaces: bool) -> None:
        size = tokenizer.vocabulary_size
        pieces = tokenizer.pieces(range(size))
        if by_spaces:
            self._joins = np.array([not piece.startswith(SPACE) for piece in pieces])
            self._ends = np.array([not piece.endswith(SPACE) for piece in pieces])
        else:
            flags = token_flags(tokenizer, size)
            self._joins, self._ends = flags & JOINS_WORD != 0, flags & ENDS_WORD != 0
        self._is_space = np.array([piece == SPACE for piece in pieces])
        self._tokenizer = tokenizer

    def numbers(self, tokens: np.ndarray) -> np.ndarray:
        """Return the number of each token's word in the text, from 0.

        Args:
            tokens: int array (length,), the tokens of a sentence without EOS.
        """
        if self._tokenizer.right_to_left:
            return self._numbers(tokens[::-1])[::-1]
        return self._numbers(tokens)

    def words(self, tokens: np.ndarray) -> list[str]:
        """Return the words of a sentence, without spaces."""
        if self._tokenizer.right_to_left:
            tokens = tokens[::-1]
        numbers = self._numbers(tokens).tolist()
        words = [""] * (1 + max(numbers, default=-1))
        for piece, number in zip(self._tokenizer.pieces(tokens.tolist()), numbers, strict=True):
            words[number] += piece
        return ["".join(word.replace(SPACE, " ").split()) or SPACE for word in words]

    def _numbers(self, tokens: np.ndarray) -> np.ndarray:
        before, after = tokens[:-1], tokens[1:]
        joins = self._is_space[before] | (self._ends[before] & self._joins[after])
        return np.cumsum(np.append(np.full(min(1, len(tokens)), True), ~joins)) - 1

"""Words that stand for variables while a sentence is translated.

A model may never have seen a variable such as `{name}`, and its vocabulary may not have the
characters. In the source, each variable is therefore replaced by a short word that the vocabulary
has as a single token; the search produces this token exactly once; and in the output, the variable
takes its place again.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.subword_sampler import SPACE
from keras_transformer.text.words import word_pattern
from keras_transformer.types import TermForm

Spans = Sequence[tuple[int, int]]  # characters of a sentence, from left to right, without overlap
# Letters that rarely begin a word, so that models copy them like names.
_FIRST = "XYZQKWVJNMRTPDBCFGHLSOUEAI"


class StandIn(NamedTuple):
    """A word that stands for a variable."""

    word: str
    source_tokens: frozenset[int]
    tokens: tuple[int, ...]  # of the target: after a space, and without one


class KeptSentence(NamedTuple):
    """A sentence whose variables are replaced by words.

    Args:
        text: the sentence for the model.
        variables: the text of each variable.
        stand_ins: the words in their place.
    """

    text: str
    variables: list[str]
    stand_ins: list[StandIn]

    def forms(self, row: Sequence[int], first_term: int) -> list[TermForm]:
        """Return the terms that make a search produce each stand-in of a row exactly once.

        Args:
            row: the source tokens of the sentence, or of a part of it.
            first_term: number of the first term.
        """
        found = [each for each in self.stand_ins if not each.source_tokens.isdisjoint(row)]
        return [
            TermForm(term, 1, True, [token])
            for term, stand_in in enumerate(found, start=first_term)
            for token in stand_in.tokens
        ]


class StandIns:
    """Chooses words that stand for variables.

    Args:
        source_tokenizer, tokenizer: the tokenizers of a model.
    """

    def __init__(
        self, source_tokenizer: SentencePieceTokenizer, tokenizer: SentencePieceTokenizer
    ) -> None:
        self._source_tokenizer = source_tokenizer
        self._tokenizer = tokenizer

    def replace(self, sentence: str, spans: Spans) -> KeptSentence:
        """Replace the variables of a sentence.

        Raises:
            UserInputError: the vocabulary has too few words for the variables.
        """
        if not spans:
            return KeptSentence(sentence, [], [])
        words = {match.group() for match in word_pattern().finditer(sentence)}
        free = (each for each in self._candidates if each.word not in words)
        chosen = [*itertools.islice(free, len(spans))]
        while len(chosen) == len(spans):
            text = _with_words(sentence, spans, chosen)
            (row,) = self._source_tokenizer.encode([text])
            lost = [i for i, each in enumerate(chosen) if _count(row, each) != 1]
            if not lost:
                return KeptSentence(text, [sentence[slice(*span)] for span in spans], chosen)
            chosen = [
                other
                for i, each in enumerate(chosen)
                if (other := next(free, None) if i in lost else each) is not None
            ]
        raise UserInputError(
            "The model's vocabulary must have more words to stand for variables. Received: "
            f"{len(spans):,} variables in {sentence[:80]!r}"
        )

    def restore(self, kept: KeptSentence, ids: Sequence[int]) -> str:
        """Return the text of an output, with the variables in the places of the stand-ins."""
        by_token = {
            token: variable
            for variable, each in zip(kept.variables, kept.stand_ins, strict=True)
            for token in each.tokens
        }
        return self._tokenizer.decode_with(ids, by_token)

    @functools.cached_property
    def _candidates(self) -> list[StandIn]:
        """The words with one token on each side, the best stand-ins first."""
        source, target = self._source_tokenizer.piece_ids, self._tokenizer.piece_ids

        def tokens(ids: dict[str, int], word: str) -> tuple[int, ...]:
            return tuple(ids[piece] for piece in (SPACE + word, word) if piece in ids)

        words = {piece.removeprefix(SPACE) for piece in target}
        known = [
            StandIn(word, frozenset(tokens(source, word)), tokens(target, word))
            for word in words
            if word.isascii() and word.isalpha() and tokens(source, word)
        ]
        return sorted(known, key=lambda each: (*_rank(each.word), each.tokens))


def _rank(word: str) -> tuple[bool, int, int]:
    """Return how well a word stands for a variable; smaller is better."""
    place = _FIRST.find(word[0].upper())
    return (not word.isupper(), len(word), place)


def _with_words(sentence: str, spans: Spans, stand_ins: Sequence[StandIn]) -> str:
    parts, place = [], 0
    for (start, end), stand_in in zip(spans, stand_ins, strict=True):
        parts += [sentence[place:start], stand_in.word]
        place = end
    return "".join([*parts, sentence[place:]])


def _count(row: Sequence[int], stand_in: StandIn) -> int:
    return sum(token in stand_in.source_tokens for token in row)

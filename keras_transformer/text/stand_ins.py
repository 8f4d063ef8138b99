"""Words that stand for variables while a sentence is translated.

A model may never have seen a variable such as `{name}`, and its vocabulary may not have the
characters. In the source, each variable is therefore replaced by a short word that the vocabulary
has as a single token; the search produces this token exactly once; and in the output, the variable
takes its place again.
"""

import bisect
import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.errors import UserInputError
from keras_transformer.text.sentencepiece_tokenizer import SentencePieceTokenizer
from keras_transformer.text.subword_sampler import SPACE
from keras_transformer.text.variables import find_variables
from keras_transformer.text.words import word_pattern
from keras_transformer.types import TermForm

Spans = Sequence[tuple[int, int]]  # characters of a sentence, from left to right, without overlap
# Letters that rarely begin a word, so that models copy them like names.
_FIRST = "XYZQKWVJNMRTPDBCFGHLSOUEAI"
_APART = ":;!?%«»"  # some languages put spaces next to them


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
        places: the start and end of each word in `text`.
    """

    text: str
    variables: list[str]
    stand_ins: list[StandIn]
    places: list[tuple[int, int]]

    def has_stand_ins_once(self, row: Sequence[int]) -> bool:
        """Return whether a row of source tokens has each stand-in exactly once."""
        return all(_count(row, each) == 1 for each in self.stand_ins)

    def neighbors(self, index: int) -> tuple[str, str]:
        """Return the characters before and after a stand-in; empty at the ends of the text."""
        start, end = self.places[index]
        return self.text[max(start - 1, 0) : start], self.text[end : end + 1]

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


class RestoredText(NamedTuple):
    """An output with the variables of its sentence.

    Args:
        text: the text.
        places: start and end in `text` of each variable, by its index.
    """

    text: str
    places: dict[int, tuple[int, int]]


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
            return KeptSentence(sentence, [], [], [])
        words = {match.group() for match in word_pattern().finditer(sentence)}
        free = (each for each in self._candidates if each.word not in words)
        chosen = [*itertools.islice(free, len(spans))]
        while len(chosen) == len(spans):
            text, places = with_texts(sentence, spans, [each.word for each in chosen])
            (row,) = self._source_tokenizer.encode([text])
            lost = [i for i, each in enumerate(chosen) if _count(row, each) != 1]
            if not lost:
                variables = [sentence[slice(*span)] for span in spans]
                return KeptSentence(text, variables, chosen, places)
            chosen = [
                other
                for i, each in enumerate(chosen)
                if (other := next(free, None) if i in lost else each) is not None
            ]
        raise UserInputError(
            "The model's vocabulary must have more words to stand for variables. Received: "
            f"{len(spans):,} variables in {sentence[:80]!r}"
        )

    def restore(self, kept: KeptSentence, ids: Sequence[int]) -> RestoredText:
        """Return the text of an output, with the variables in the places of the stand-ins.

        A variable that has white space on a side in the sentence has it in the text too, unless it
        is next to punctuation. White space between a variable and the punctuation that it touches
        in the sentence is removed. A space separates a variable from characters that would read as
        a part of it, such as those in `http://a.org-x`.
        """
        if not kept.variables:
            return RestoredText(self._tokenizer.decode([ids])[0], {})
        by_token = {
            token: index for index, each in enumerate(kept.stand_ins) for token in each.tokens
        }
        texts, tokens = self._tokenizer.decode_around(ids, by_token)
        found = [by_token[token] for token in tokens]
        for number, index in enumerate(found):
            before, after = kept.neighbors(index)
            texts[number] = _spaced(texts[number], before, number > 0)
            is_between = number + 1 < len(found)
            texts[number + 1] = _spaced(texts[number + 1][::-1], after, is_between)[::-1]
        text = texts[0]
        places = {}
        for index, following in zip(found, texts[1:], strict=True):
            variable = kept.variables[index]
            places[index] = len(text), len(text) + len(variable)
            text += variable + following
        return _separated(RestoredText(text, places), kept)

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


def with_texts(text: str, spans: Spans, others: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Return a text with other texts in place of some of its spans, and where these are."""
    parts, places, last, length = [], [], 0, 0
    for (start, end), other in zip(spans, others, strict=True):
        length += start - last
        parts += [text[last:start], other]
        places.append((length, length + len(other)))
        length += len(other)
        last = end
    return "".join([*parts, text[last:]]), places


def _spaced(text: str, neighbor: str, is_between: bool) -> str:
    """Return the text before a variable with the white space that the variable has in its source.

    Args:
        text: the text.
        neighbor: the character before the variable in its source; empty at the start.
        is_between: whether another variable is before the text.
    """
    if not text:
        return " " if is_between else ""
    if neighbor.isspace() and text[-1].isalnum():
        return f"{text} "
    if text[-1].isspace() and text[-2:-1] == neighbor != "" and neighbor not in _APART:
        return text[:-1]
    return text


def _separated(output: RestoredText, kept: KeptSentence) -> RestoredText:
    """Put spaces between variables and text that would read as a part of them."""
    text, places = output
    starts, ends = ({place[side] for place in places.values()} for side in (0, 1))
    gaps = []
    for first, last in find_variables(text):
        for index, (start, end) in places.items():
            before, after = kept.neighbors(index)
            own = []
            if first < start < last and start not in ends and text[start - 1] != before:
                own.append(start)
            if first < end < last and end not in starts and text[end] != after:
                own.append(end)
            # The user may keep other kinds of text too.
            if own and find_variables(text[start:end]) == [(0, end - start)]:
                gaps += own
    gaps.sort()
    parts = [text[start:end] for start, end in itertools.pairwise([0, *gaps, len(text)])]
    moved = {
        index: (start + bisect.bisect_right(gaps, start), end + bisect.bisect_left(gaps, end))
        for index, (start, end) in places.items()
    }
    return RestoredText(" ".join(parts), moved)


def _count(row: Sequence[int], stand_in: StandIn) -> int:
    return sum(token in stand_in.source_tokens for token in row)

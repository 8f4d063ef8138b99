"""Comparing two trees of one sentence as EVALB does."""

import bisect
import collections
import functools
import itertools
from collections.abc import Iterator, Sequence

from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.evalb_scores import ERROR, SKIPPED, VALID, SentenceScore
from keras_transformer.parsing.evalb_sentence import (
    MATCHED,
    UNMATCHED,
    EvalbBracket,
    EvalbSentence,
)
from keras_transformer.parsing.leaf import cut
from keras_transformer.parsing.tree import Tree

# More than real sentences have; a malicious tree could make the cost grow with their square.
_MOST_QUOTES = 200
_MOST_DETAILS = 10_000


class EvalbComparison:
    """A comparison of a gold tree with a parser's tree of the same sentence.

    Trees are bracketed lines or `Tree`s, without any cleaning; an empty line is a missing tree.
    `details` has the first 10,000 of EVALB's messages about single brackets at DEBUG 2: pairs of a
    kind (`"LABEL"`, `"BRACKET"`, `"EXTRA"`, `"CROSSING"`) and a bracket of the gold tree, or of the
    parser's tree for `"EXTRA"`.

    Example:
        >>> from keras_transformer.parsing.evalb_parameters import EvalbParameters
        >>> trees = "(S (NP (PRP it)) (VP (VBZ is)))", "(S (NP (PRP it)) (VBZ is))"
        >>> score = EvalbComparison(*trees, EvalbParameters()).score
        >>> score.matched, score.gold_brackets, score.test_brackets
        (2, 3, 2)
    """

    def __init__(self, gold: str | Tree, test: str | Tree, parameters: EvalbParameters) -> None:
        self.gold = EvalbSentence(str(gold), parameters)
        self.test = EvalbSentence(str(test), parameters)
        self._parameters = parameters
        # The first gold bracket crossed by each of the parser's brackets that cross one.
        self._crossed: list[EvalbBracket] = []
        self._is_compared = False
        self.score = self._score()

    @functools.cached_property
    def details(self) -> list[tuple[str, EvalbBracket]]:
        return list(itertools.islice(self._disagreements(), _MOST_DETAILS))

    def _score(self) -> SentenceScore:
        if not self.test.words:
            return SentenceScore(self.gold.length, SKIPPED)
        if len(self.gold.words) != len(self.test.words):
            self._put_quotes_back()
        fault = _fault_of_words(self.gold, self.test, self._parameters)
        if fault:
            return SentenceScore(self.gold.length, ERROR, fault=fault)
        for side in (self.gold, self.test):
            side.prepare_brackets(self._parameters)
        self._is_compared = True
        # As in EVALB, a broken tree with the right words is an error but has figures in the table.
        fault = _fault_of_brackets(self.gold, self.test)
        return SentenceScore(
            length=self.gold.length,
            status=ERROR if fault else VALID,
            matched=self._match_brackets(),
            gold_brackets=len(self.gold.counted()),
            test_brackets=len(self.test.counted()),
            crossing=self._count_crossing(),
            words=len(self.gold.words),
            correct_tags=self._match_tags(),
            fault=fault,
        )

    def _put_quotes_back(self) -> None:
        """Restore the quotation marks that were deleted, by their tags, from one side only."""
        if max(len(self.gold.quotes), len(self.test.quotes)) > _MOST_QUOTES:
            return
        deleted = self._parameters.delete_labels
        for number, quote in enumerate(self.test.quotes):
            index = quote.index  # before the marks restored here move it
            for other_number, other in enumerate(self.gold.quotes):
                if other.index != index:
                    continue
                in_gold, in_test = other.word.tag in deleted, quote.word.tag in deleted
                if in_gold and not in_test:
                    self.gold.put_back(other_number)
                elif in_test and not in_gold:
                    self.test.put_back(number)

    def _match_brackets(self) -> int:
        """Match each gold bracket with the first free one of the same words and label."""
        free: dict[tuple[int, int], dict[str, collections.deque[tuple[int, EvalbBracket]]]] = (
            collections.defaultdict(lambda: collections.defaultdict(collections.deque))
        )
        for place, bracket in enumerate(self.test.counted()):
            free[bracket.start, bracket.end][self._label(bracket)].append((place, bracket))
        matched = 0
        for bracket in self.gold.counted():
            by_label = free[bracket.start, bracket.end]
            same = self._parameters.equals_of(self._label(bracket)) & by_label.keys()
            if same:
                label = min(same, key=lambda name: by_label[name][0])
                _, candidate = by_label[label].popleft()
                if not by_label[label]:
                    del by_label[label]
                bracket.result = candidate.result = MATCHED
                matched += 1
        return matched

    def _label(self, bracket: EvalbBracket) -> str:
        return bracket.label if self._parameters.labeled else ""

    def _count_crossing(self) -> int:
        """Number of the parser's brackets that cross at least one gold bracket."""
        crossed = first_crossed(self.gold.counted(), self.test.counted())
        self._crossed = [bracket for bracket in crossed if bracket is not None]
        return len(self._crossed)

    def _disagreements(self) -> Iterator[tuple[str, EvalbBracket]]:
        """Yield all `details`: brackets that do not match, then brackets that are crossed."""
        if not self._is_compared:
            return
        yield from self._unmatched()
        last = None
        for bracket in self._crossed:
            if bracket is not last:
                yield "CROSSING", bracket
            last = bracket

    def _unmatched(self) -> Iterator[tuple[str, EvalbBracket]]:
        candidates = collections.defaultdict(list)
        for bracket in self.test.counted():
            candidates[bracket.start, bracket.end].append(bracket)
        mislabeled = set()
        for bracket in self.gold.counted():
            free = candidates[bracket.start, bracket.end]
            if not free:
                yield "BRACKET", bracket
            for place, candidate in enumerate(free):
                if self._label(candidate) in self._parameters.equals_of(self._label(bracket)):
                    del free[place]
                    break
                yield "LABEL", bracket
                mislabeled.add(id(candidate))
        for bracket in self.test.counted():
            if bracket.result == UNMATCHED and id(bracket) not in mislabeled:
                yield "EXTRA", bracket

    def _match_tags(self) -> int:
        correct = 0
        for gold, test in zip(self.gold.words, self.test.words, strict=True):
            same = self._parameters.same_label(gold.tag, test.tag)
            gold.result = test.result = MATCHED if same else UNMATCHED
            correct += same
        return correct


def _fault_of_words(
    gold: EvalbSentence, test: EvalbSentence, parameters: EvalbParameters
) -> str | None:
    if len(gold.words) != len(test.words):
        return f"{len(gold.words)} words in the gold tree, {len(test.words)} in the other"
    for one, other in zip(gold.words, test.words, strict=True):
        if not parameters.same_word(one.word, other.word):
            return (
                f"the word `{cut(one.word)}` of the gold tree is `{cut(other.word)}` in the other"
            )
    return None


def _fault_of_brackets(gold: EvalbSentence, test: EvalbSentence) -> str | None:
    for name, side in (("the gold tree", gold), ("the other tree", test)):
        if side.fault:
            return f"{name}: {side.fault}"
    return None


def first_crossed(
    brackets: Sequence[EvalbBracket], others: Sequence[EvalbBracket]
) -> list[EvalbBracket | None]:
    """Return, for each of `others`, the first of `brackets` that overlaps it without nesting."""
    nested = _Nested(brackets)
    found: list[int | None] = [None] * len(others)
    # A bracket that begins before `other` and ends in it is around the start of `other`; a bracket
    # that begins in `other` and ends after it is around the end of `other`.
    for number in sorted(range(len(others)), key=lambda number: others[number].start):
        found[number] = nested.ends_before(others[number].start, others[number].end)
    nested = _Nested(brackets)
    for number in sorted(range(len(others)), key=lambda number: others[number].end):
        earlier, other = found[number], others[number]
        later = nested.begins_after(other.end, other.start)
        if later is not None and (earlier is None or later < earlier):
            found[number] = later
    return [None if place is None else brackets[place] for place in found]


class _Nested:
    """The brackets around a position between two words, which moves to the right."""

    def __init__(self, brackets: Sequence[EvalbBracket]) -> None:
        places = (place for place, one in enumerate(brackets) if one.start < one.end)
        self._coming = sorted(
            ((brackets[place].start, -brackets[place].end, place) for place in places),
            reverse=True,
        )
        # Of the brackets around the position, from the outermost.
        self._starts: list[int] = []
        self._ends: list[int] = []  # negative, so that they ascend
        self._places: list[int] = []

    def ends_before(self, position: int, end: int) -> int | None:
        """Return the place of the first bracket around `position` that ends before `end`."""
        self._go_to(position)
        return self._place(bisect.bisect_right(self._ends, -end))

    def begins_after(self, position: int, start: int) -> int | None:
        """Return the place of the first bracket around `position` that begins after `start`."""
        self._go_to(position)
        return self._place(bisect.bisect_right(self._starts, start))

    def _go_to(self, position: int) -> None:
        while self._coming and self._coming[-1][0] < position:
            start, end, place = self._coming.pop()
            self._leave(start)
            self._starts.append(start)
            self._ends.append(end)
            self._places.append(place)
        self._leave(position)

    def _leave(self, position: int) -> None:
        """Drop the brackets that end at or before a position."""
        while self._ends and -self._ends[-1] <= position:
            del self._starts[-1], self._ends[-1], self._places[-1]

    def _place(self, number: int) -> int | None:
        return self._places[number] if number < len(self._places) else None

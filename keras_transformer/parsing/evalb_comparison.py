"""Comparing two trees of one sentence as EVALB does."""

import collections
import math
from collections.abc import Sequence

from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.evalb_scores import ERROR, SKIPPED, VALID, SentenceScore
from keras_transformer.parsing.evalb_sentence import EvalbBracket, EvalbSentence
from keras_transformer.parsing.leaf import cut
from keras_transformer.parsing.tree import Tree

# More than real sentences have; a malicious tree could make the cost grow with their square.
_MOST_QUOTES = 200


def compare(gold: str | Tree, test: str | Tree, parameters: EvalbParameters) -> SentenceScore:
    """Compare a gold tree with a parser's tree of the same sentence.

    Trees are bracketed lines or `Tree`s, without any cleaning; an empty line is a missing tree.

    Example:
        >>> from keras_transformer.parsing.evalb_parameters import EvalbParameters
        >>> trees = "(S (NP (PRP it)) (VP (VBZ is)))", "(S (NP (PRP it)) (VBZ is))"
        >>> score = compare(*trees, EvalbParameters())
        >>> score.matched, score.gold_brackets, score.test_brackets
        (2, 3, 2)
    """
    ours, other = EvalbSentence(str(gold), parameters), EvalbSentence(str(test), parameters)
    if not other.words:
        return SentenceScore(ours.length, SKIPPED)
    if len(ours.words) != len(other.words):
        _put_quotes_back(ours, other, parameters.delete_labels)
    if fault := _fault_of_words(ours, other, parameters):
        return SentenceScore(ours.length, ERROR, fault=fault)
    # As in EVALB, a broken tree with the right words is an error but has figures in the table.
    fault = _fault_of_brackets(ours, other)
    brackets, others = ours.counted(parameters), other.counted(parameters)
    pairs = zip(ours.words, other.words, strict=True)
    return SentenceScore(
        length=ours.length,
        status=ERROR if fault else VALID,
        matched=_count_matched(brackets, others, parameters),
        gold_brackets=len(brackets),
        test_brackets=len(others),
        crossing=count_crossing(brackets, others, len(ours.words)),
        words=len(ours.words),
        correct_tags=sum(parameters.same_label(one.tag, two.tag) for one, two in pairs),
        fault=fault,
    )


def _put_quotes_back(gold: EvalbSentence, test: EvalbSentence, deleted: Sequence[str]) -> None:
    """Restore the quotation marks that were deleted, by their tags, from one side only."""
    if max(len(gold.quotes), len(test.quotes)) > _MOST_QUOTES:
        return
    for number, quote in enumerate(test.quotes):
        index = quote.index  # before the marks restored here move it
        for other_number, other in enumerate(gold.quotes):
            if other.index != index:
                continue
            in_gold, in_test = other.word.tag in deleted, quote.word.tag in deleted
            if in_gold and not in_test:
                gold.put_back(other_number)
            elif in_test and not in_gold:
                test.put_back(number)


def _count_matched(
    gold: Sequence[EvalbBracket], test: Sequence[EvalbBracket], parameters: EvalbParameters
) -> int:
    """Match each gold bracket with the first free one of the same words and label."""

    def label_of(bracket: EvalbBracket) -> str:
        return bracket.label if parameters.labeled else ""

    free: dict[tuple[int, int, str], collections.deque[int]] = collections.defaultdict(
        collections.deque
    )
    for place, bracket in enumerate(test):
        free[bracket.start, bracket.end, label_of(bracket)].append(place)
    matched = 0
    for bracket in gold:
        labels = parameters.equals_of(label_of(bracket))
        queues = (free.get((bracket.start, bracket.end, label)) for label in labels)
        if same := [queue for queue in queues if queue]:
            min(same, key=lambda queue: queue[0]).popleft()
            matched += 1
    return matched


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


def count_crossing(
    brackets: Sequence[EvalbBracket], others: Sequence[EvalbBracket], words: int
) -> int:
    """Return how many of `others` overlap one of `brackets` without nesting."""
    # The innermost bracket around a position ends first and begins last.
    inner = _innermost(brackets, words)
    return sum(
        inner[other.start][1] < other.end or inner[other.end][0] > other.start
        for other in others
        if other.start < other.end
    )


def _innermost(brackets: Sequence[EvalbBracket], words: int) -> list[tuple[int, float]]:
    """The start and end of the innermost bracket around each position between two words."""
    coming = [(one.start, -one.end) for one in brackets if one.start < one.end]
    coming.sort(reverse=True)
    around: list[tuple[int, float]] = [(-1, math.inf)]  # from the outermost; the first is none
    found = []
    for position in range(words + 1):
        while around[-1][1] <= position:
            around.pop()
        found.append(around[-1])
        while coming and coming[-1][0] == position:
            start, negative_end = coming.pop()
            around.append((start, -negative_end))
    return found

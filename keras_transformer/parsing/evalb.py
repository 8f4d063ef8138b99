"""EVALB scores for parse trees.

The scores match the C program by Sekine and Collins, with two differences: sentences may have any
length, and the evaluation continues past MAX_ERROR.
"""

import collections
import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.errors import refuse
from keras_transformer.parsing.evalb_scores import (
    ERROR,
    SKIPPED,
    VALID,
    EvalbBracket,
    EvalbParameters,
    EvalbSentence,
    EvalbSummary,
    SentenceScore,
    added,
    summary,
)
from keras_transformer.parsing.tree import Tree, cut

# More than in real sentences. The cost of a malicious tree could grow quadratically.
_MOST_QUOTES = 200


def compare(gold: str | Tree, test: str | Tree, parameters: EvalbParameters) -> SentenceScore:
    """Compare a gold tree with a parser tree of the same sentence.

    Trees are bracketed lines or `Tree`s and are not cleaned; an empty line is a missing tree.

    Example:
        >>> from keras_transformer.parsing.evalb_scores import EvalbParameters
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
    # As in EVALB, a broken tree with the right words is an error but still has scores in the table.
    sides = (("the gold tree", ours), ("the other tree", other))
    fault = next((f"{name}: {side.fault}" for name, side in sides if side.fault), None)
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
    """Restore quotation marks that were deleted, based on their tags, from only one side."""
    if max(len(gold.quotes), len(test.quotes)) > _MOST_QUOTES:
        return
    for number, quote in enumerate(test.quotes):
        index = quote.index  # before restored marks shift it
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
    """Match each gold bracket to the first unmatched bracket with the same words and label."""

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


def count_crossing(
    brackets: Sequence[EvalbBracket], others: Sequence[EvalbBracket], words: int
) -> int:
    """Count the brackets in `others` that overlap a bracket in `brackets` without nesting."""
    # The innermost bracket around a position ends first and starts last.
    inner = _innermost(brackets, words)
    return sum(
        inner[other.start][1] < other.end or inner[other.end][0] > other.start
        for other in others
        if other.start < other.end
    )


def _innermost(brackets: Sequence[EvalbBracket], words: int) -> list[tuple[int, float]]:
    """Return the bounds of the innermost bracket around each position between two words."""
    coming = [(one.start, -one.end) for one in brackets if one.start < one.end]
    coming.sort(reverse=True)
    around: list[tuple[int, float]] = [(-1, math.inf)]  # outermost first; starts with no bracket
    found = []
    for position in range(words + 1):
        while around[-1][1] <= position:
            around.pop()
        found.append(around[-1])
        while coming and coming[-1][0] == position:
            start, negative_end = coming.pop()
            around.append((start, -negative_end))
    return found


RULE = "=" * 76
HEADING = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" + RULE
)

_FIGURES = (  # in the order of `EvalbSummary`
    *("Number of sentence", "Number of Error sentence", "Number of Skip  sentence"),
    *("Number of Valid sentence", "Bracketing Recall", "Bracketing Precision"),
    *("Bracketing FMeasure", "Complete match", "Average crossing", "No crossing"),
    *("2 or less crossing", "Tagging accuracy"),
)


@dataclasses.dataclass(frozen=True)
class EvalbResult:
    """Result of `evaluate`.

    Args:
        all: summary of all sentences.
        short: summary of the sentences up to the cutoff length.
        cutoff_length: the cutoff length.
        scores: scores of each sentence.
    """

    all: EvalbSummary
    short: EvalbSummary
    cutoff_length: int
    scores: tuple[SentenceScore, ...]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Return the scores printed by `evalb --json`: `all` and `len<=40`."""
        return {
            "all": self.all.as_dict(),
            f"len<={self.cutoff_length}": self.short.as_dict(),
        }


def evaluate(
    gold: Iterable[str | Tree],
    test: Iterable[str | Tree],
    parameters: EvalbParameters | None = None,
) -> EvalbResult:
    """Score a parser's trees against a treebank, like EVALB.

    Args:
        gold: trees of the treebank, as bracketed lines or `Tree`s; they are not cleaned.
        test: the parser's trees in the same order, with an empty line for a missing tree.
        parameters: the rules; defaults to the rules of `COLLINS.prm`.

    Returns:
        The scores of all sentences.

    Raises:
        ValueError: the numbers of trees differ.

    Example:
        >>> gold = ["(S (NP (PRP it)) (VP (VBZ is)))", "(S (NP (PRP I)) (VP (VBP am)))"]
        >>> result = evaluate(gold, ["(S (NP (PRP it)) (VBZ is))", ""])
        >>> result.all.skipped, result.all.precision, result.as_dict()["len<=40"]["recall"]
        (1, 100.0, 66.67)

    Reference:
        Sekine and Collins, EVALB, https://nlp.cs.nyu.edu/evalb/.
    """
    gold, test = list(gold), list(test)
    if len(gold) != len(test):
        refuse(
            "gold", "contain as many trees as `test`", gold_trees=len(gold), test_trees=len(test)
        )
    parameters = parameters or EvalbParameters()
    pairs = zip(gold, test, strict=True)
    return total([compare(*pair, parameters) for pair in pairs], parameters)


def total(scores: Sequence[SentenceScore], parameters: EvalbParameters) -> EvalbResult:
    """Summarize the scores of sentences."""
    short = [score for score in scores if score.length <= parameters.cutoff_length]
    return EvalbResult(summary(scores), summary(short), parameters.cutoff_length, tuple(scores))


def sentence_row(number: int, score: SentenceScore) -> str:
    """Return the table row for a sentence, which is numbered from 1.

    Example:
        >>> from keras_transformer.parsing.evalb_scores import SentenceScore
        >>> sentence_row(7, SentenceScore(4, matched=1, gold_brackets=4, test_brackets=1, words=4))
        '   7    4    0   25.00 100.00     1      4    1      0      4     0     0.00'
    """
    return (
        f"{number:4d}  {score.length:3d}    {score.status}  {score.recall:6.2f} "
        f"{score.precision:6.2f}   {score.matched:3d}    {score.gold_brackets:3d}  "
        f"{score.test_brackets:3d}    {score.crossing:3d}   {_tagging(score, 4)}"
    )


def result_text(result: EvalbResult) -> str:
    """Return the text after the table rows: the totals and the two summaries."""
    parts = [
        RULE,
        _total_row(result.scores),
        "=== Summary ===",
        "",
        _summary("All", result.all),
        "",
        _summary(f"len<={result.cutoff_length}", result.short),
    ]
    return "\n".join(parts)


def _total_row(scores: Iterable[SentenceScore]) -> str:
    totals, row = added(scores), ""
    if totals.gold_brackets and totals.test_brackets:
        row = (
            f"                {totals.recall:6.2f} {totals.precision:6.2f} {totals.matched:6d}"
            f" {totals.gold_brackets:5d} {totals.test_brackets:5d}  {totals.crossing:5d}"
        )
    return f"{row}  {_tagging(totals, 5, between=' ')}"


def _tagging(score: SentenceScore, width: int, between: str = "  ") -> str:
    words, tags = f"{score.words:{width}d}", f"{score.correct_tags:{width}d}"
    return f"{words}{between}{tags}   {score.tagging_accuracy:6.2f}"


def _summary(title: str, summary: EvalbSummary) -> str:
    figures = zip(_FIGURES, dataclasses.astuple(summary), strict=True)
    rows = (
        f"{name:26}= {value:6{'d' if isinstance(value, int) else '.2f'}}" for name, value in figures
    )
    return "\n".join([f"-- {title} --", *rows])

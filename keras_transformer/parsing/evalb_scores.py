"""EVALB's figures: of one sentence, summed over sentences, and in percent."""

import dataclasses
from collections.abc import Iterable
from typing import Any

VALID, ERROR, SKIPPED = 0, 1, 2
_ADDED = ("matched", "gold_brackets", "test_brackets", "crossing", "words", "correct_tags")


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """The figures of one sentence, in the order of EVALB's table.

    Args:
        length: number of words in the gold tree, with punctuation.
        status: 0 for a valid sentence, 1 for an error, 2 for a missing tree of the parser.
        matched: number of brackets in both trees.
        gold_brackets: number of brackets in the gold tree.
        test_brackets: number of brackets in the parser's tree.
        crossing: number of the parser's brackets that cross a gold bracket.
        words: number of words that are not deleted.
        correct_tags: number of words whose tags agree.
        fault: what is wrong with a sentence in error.
    """

    length: int
    status: int = VALID
    matched: int = 0
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0
    fault: str | None = None

    @property
    def recall(self) -> float:
        """Matched brackets of the gold tree, in percent."""
        return percent(self.matched, self.gold_brackets)

    @property
    def precision(self) -> float:
        """Matched brackets of the parser's tree, in percent."""
        return percent(self.matched, self.test_brackets)

    @property
    def tagging_accuracy(self) -> float:
        """Correct tags, in percent."""
        return percent(self.correct_tags, self.words)


@dataclasses.dataclass(frozen=True)
class EvalbSummary:
    """The figures of many sentences, not rounded; in percent if EVALB prints percent.

    Divisions by zero give 0.
    """

    sentences: int
    error: int
    skipped: int
    valid: int
    recall: float
    precision: float
    f1: float
    complete_match: float
    average_crossing: float
    no_crossing: float
    two_or_less_crossing: float
    tagging_accuracy: float

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a JSON-compatible dictionary, rounded to two decimals."""
        values = dataclasses.asdict(self)
        return {
            name: round(value, 2) if isinstance(value, float) else value
            for name, value in values.items()
        }


def summary(scores: Iterable[SentenceScore]) -> EvalbSummary:
    """Sum up sentences; an invalid one adds only to the count of its status."""
    scores = list(scores)
    valid, totals = _valid(scores), added(scores)
    recall, precision = totals.recall, totals.precision
    both = precision + recall
    return EvalbSummary(
        sentences=len(scores),
        error=sum(score.status == ERROR for score in scores),
        skipped=sum(score.status == SKIPPED for score in scores),
        valid=len(valid),
        recall=recall,
        precision=precision,
        f1=2 * precision * recall / both if both else 0.0,
        complete_match=_share(
            score.gold_brackets == score.test_brackets == score.matched for score in valid
        ),
        average_crossing=totals.crossing / len(valid) if valid else 0.0,
        no_crossing=_share(score.crossing == 0 for score in valid),
        two_or_less_crossing=_share(score.crossing <= 2 for score in valid),
        tagging_accuracy=totals.tagging_accuracy,
    )


def added(scores: Iterable[SentenceScore]) -> SentenceScore:
    """The sum of the valid sentences."""
    valid = _valid(scores)
    return SentenceScore(0, **{name: sum(getattr(one, name) for one in valid) for name in _ADDED})


def _valid(scores: Iterable[SentenceScore]) -> list[SentenceScore]:
    return [score for score in scores if score.status == VALID]


def _share(are_true: Iterable[bool]) -> float:
    """How many are true, in percent."""
    values = list(are_true)
    return percent(sum(values), len(values))


def percent(part: float, whole: float) -> float:
    """Return `part` of `whole` in percent; 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0

"""EVALB's figures: of one sentence, summed over sentences, and in percent."""

import dataclasses
from typing import Any

VALID, ERROR, SKIPPED = 0, 1, 2


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


@dataclasses.dataclass
class EvalbTotals:
    """Sums over sentences."""

    sentences: int = 0
    error: int = 0
    skipped: int = 0
    complete: int = 0
    no_crossing: int = 0
    two_or_less_crossing: int = 0
    matched: int = 0
    gold_brackets: int = 0
    test_brackets: int = 0
    crossing: int = 0
    words: int = 0
    correct_tags: int = 0

    def add(self, score: SentenceScore) -> None:
        """Add the figures of a sentence; an invalid one adds only to the count of its status."""
        self.sentences += 1
        self.error += score.status == ERROR
        self.skipped += score.status == SKIPPED
        if score.status != VALID:
            return
        for name in (
            "matched", "gold_brackets", "test_brackets", "crossing", "words", "correct_tags",
        ):  # fmt: skip
            setattr(self, name, getattr(self, name) + getattr(score, name))
        self.complete += score.gold_brackets == score.test_brackets == score.matched
        self.no_crossing += score.crossing == 0
        self.two_or_less_crossing += score.crossing <= 2

    def summary(self) -> EvalbSummary:
        """Return the summary of the sentences added so far."""
        valid = self.sentences - self.error - self.skipped
        recall = percent(self.matched, self.gold_brackets)
        precision = percent(self.matched, self.test_brackets)
        both = precision + recall
        return EvalbSummary(
            sentences=self.sentences,
            error=self.error,
            skipped=self.skipped,
            valid=valid,
            recall=recall,
            precision=precision,
            f1=2 * precision * recall / both if both else 0.0,
            complete_match=percent(self.complete, valid),
            average_crossing=self.crossing / valid if valid else 0.0,
            no_crossing=percent(self.no_crossing, valid),
            two_or_less_crossing=percent(self.two_or_less_crossing, valid),
            tagging_accuracy=percent(self.correct_tags, self.words),
        )


def percent(part: float, whole: float) -> float:
    """Return `part` of `whole` in percent; 0 if `whole` is 0."""
    return 100.0 * part / whole if whole else 0.0

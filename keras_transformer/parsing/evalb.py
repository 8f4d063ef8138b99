"""EVALB: how well the brackets of a parser's trees agree with a treebank's.

It reproduces the figures of the C program by Sekine and Collins, with two differences: sentences
may have any length, and it continues past MAX_ERROR.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.parsing.evalb_comparison import compare
from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.evalb_scores import EvalbSummary, SentenceScore, added, summary
from keras_transformer.parsing.tree import Tree

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
        short: summary of the sentences up to the cut-off length.
        cutoff_length: the cut-off length.
        scores: figures of each sentence.
    """

    all: EvalbSummary
    short: EvalbSummary
    cutoff_length: int
    scores: tuple[SentenceScore, ...]

    def as_dict(self) -> dict[str, dict[str, Any]]:
        """Return the figures that `evalb --json` prints: `all` and `len<=40`."""
        return {
            "all": self.all.as_dict(),
            f"len<={self.cutoff_length}": self.short.as_dict(),
        }


def evaluate(
    gold: Iterable[str | Tree],
    test: Iterable[str | Tree],
    parameters: EvalbParameters | None = None,
) -> EvalbResult:
    """Compare a parser's trees with a treebank's, as EVALB does.

    Args:
        gold: the treebank's trees, as bracketed lines or `Tree`s, without any cleaning.
        test: the parser's trees in the same order; an empty line for a missing tree.
        parameters: the rules; defaults to the rules of `COLLINS.prm`.

    Returns:
        The figures of all sentences.

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
        raise ValueError(
            "`gold` and `test` must have the same number of trees. "
            f"Received: {len(gold)} and {len(test)}"
        )
    parameters = parameters or EvalbParameters()
    pairs = zip(gold, test, strict=True)
    return total([compare(*pair, parameters) for pair in pairs], parameters)


def total(scores: Sequence[SentenceScore], parameters: EvalbParameters) -> EvalbResult:
    """Sum up the figures of sentences."""
    short = [score for score in scores if score.length <= parameters.cutoff_length]
    return EvalbResult(summary(scores), summary(short), parameters.cutoff_length, tuple(scores))


def sentence_row(number: int, score: SentenceScore) -> str:
    """Return one line of the table, for a sentence numbered from 1.

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
    """Return what follows the rows of the table: sums, and the two summaries."""
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

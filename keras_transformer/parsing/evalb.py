"""EVALB: how well the brackets of a parser's trees agree with a treebank's.

It reproduces the figures of the C program by Sekine and Collins, with two differences: sentences
may have any length, and it continues past MAX_ERROR.
"""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from keras_transformer.parsing.evalb_comparison import EvalbComparison
from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.evalb_scores import (
    EvalbSummary,
    EvalbTotals,
    SentenceScore,
    percent,
)
from keras_transformer.parsing.evalb_sentence import EvalbBracket, EvalbWord
from keras_transformer.parsing.tree import Tree

RULE = "=" * 76
HEADING = (
    "  Sent.                        Matched  Bracket   Cross        Correct Tag\n"
    " ID  Len.  Stat. Recal  Prec.  Bracket gold test Bracket Words  Tags Accracy\n" + RULE
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
    return total([EvalbComparison(*pair, parameters).score for pair in pairs], parameters)


def total(scores: Sequence[SentenceScore], parameters: EvalbParameters) -> EvalbResult:
    """Sum up the figures of sentences."""
    everything, short = EvalbTotals(), EvalbTotals()
    for score in scores:
        everything.add(score)
        if score.length <= parameters.cutoff_length:
            short.add(score)
    return EvalbResult(
        everything.summary(), short.summary(), parameters.cutoff_length, tuple(scores)
    )


def sentence_row(number: int, score: SentenceScore) -> str:
    """Return one line of the table, for a sentence numbered from 1.

    Example:
        >>> from keras_transformer.parsing.evalb_scores import SentenceScore
        >>> sentence_row(7, SentenceScore(4, matched=1, gold_brackets=4, test_brackets=1, words=4))
        '   7    4    0   25.00 100.00     1      4    1      0      4     0     0.00'
    """
    recall = percent(score.matched, score.gold_brackets)
    precision = percent(score.matched, score.test_brackets)
    return (
        f"{number:4d}  {score.length:3d}    {score.status}  {recall:6.2f} {precision:6.2f}"
        f"   {score.matched:3d}    {score.gold_brackets:3d}  {score.test_brackets:3d}"
        f"    {score.crossing:3d}   {_tagging(score, 4)}"
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


def bracket_text(comparison: EvalbComparison) -> str:
    """Return what DEBUG 2 prints before a sentence's row: single brackets that do not agree."""
    lines = [""]
    for kind, bracket in comparison.details:
        side = comparison.test if kind == "EXTRA" else comparison.gold
        words = f"{bracket.start}-{bracket.end - 1}"
        lines.append(f"  {kind}[{words}]: {side.text_of(bracket)}")
    return "\n".join(lines)


def debug_text(comparison: EvalbComparison) -> str:
    """Return what DEBUG 1 and 2 print after a sentence's row: words and brackets side by side.

    Results are 0 for unmatched, 1 for matched, 5 for deleted, 9 for not compared.
    """
    gold, test = comparison.gold, comparison.test
    lines = [
        f"-<1>---(wn1={len(gold.words):3d}, bn1={len(gold.brackets):3d})-           "
        f"-<2>---(wn2={len(test.words):3d}, bn2={len(test.brackets):3d})-"
    ]
    lines += _side_by_side(map(_word_cell, gold.words), map(_word_cell, test.words), 34)
    lines.append("")
    lines += _side_by_side(map(_bracket_cell, gold.brackets), map(_bracket_cell, test.brackets), 26)
    return "\n".join([*lines, "", "========"])


def _side_by_side(left: Iterable[str], right: Iterable[str], width: int) -> Iterator[str]:
    rows = itertools.zip_longest(left, right)
    for number, (one, other) in enumerate(rows):
        one, other = (f"{number:3d} : {cell}" if cell else "" for cell in (one, other))
        yield f"{one:{width}}      {other}"


def _word_cell(word: EvalbWord) -> str:
    return f"{word.result} : {word.tag:6}  {word.word:16}" if word.word else ""


def _bracket_cell(bracket: EvalbBracket) -> str:
    return f"{bracket.result} : {bracket.start:3d}  {bracket.end:3d}  {bracket.label:6}"


def _total_row(scores: Iterable[SentenceScore]) -> str:
    totals = EvalbTotals()
    for score in scores:
        totals.add(score)
    row = ""
    if totals.gold_brackets and totals.test_brackets:
        recall = percent(totals.matched, totals.gold_brackets)
        precision = percent(totals.matched, totals.test_brackets)
        row = (
            f"                {recall:6.2f} {precision:6.2f} {totals.matched:6d}"
            f" {totals.gold_brackets:5d} {totals.test_brackets:5d}  {totals.crossing:5d}"
        )
    return f"{row}  {_tagging(totals, 5, between=' ')}"


def _tagging(counts: SentenceScore | EvalbTotals, width: int, between: str = "  ") -> str:
    accuracy = percent(counts.correct_tags, counts.words)
    words, tags = f"{counts.words:{width}d}", f"{counts.correct_tags:{width}d}"
    return f"{words}{between}{tags}   {accuracy:6.2f}"


def _summary(title: str, summary: EvalbSummary) -> str:
    return "\n".join(
        [
            f"-- {title} --",
            f"Number of sentence        = {summary.sentences:6d}",
            f"Number of Error sentence  = {summary.error:6d}",
            f"Number of Skip  sentence  = {summary.skipped:6d}",
            f"Number of Valid sentence  = {summary.valid:6d}",
            f"Bracketing Recall         = {summary.recall:6.2f}",
            f"Bracketing Precision      = {summary.precision:6.2f}",
            f"Bracketing FMeasure       = {summary.f1:6.2f}",
            f"Complete match            = {summary.complete_match:6.2f}",
            f"Average crossing          = {summary.average_crossing:6.2f}",
            f"No crossing               = {summary.no_crossing:6.2f}",
            f"2 or less crossing        = {summary.two_or_less_crossing:6.2f}",
            f"Tagging accuracy          = {summary.tagging_accuracy:6.2f}",
        ]
    )

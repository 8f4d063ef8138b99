"""EVALB: how well the brackets of a parser's trees agree with those of a treebank.

It reproduces the figures of the C program by Sekine and Collins, with two differences: sentences
may have any length, and it continues past MAX_ERROR.
"""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from keras_transformer.parsing.evalb_comparison import EvalbComparison
from keras_transformer.parsing.evalb_parameters import EvalbParameters
from keras_transformer.parsing.evalb_scores import EvalbSummary, EvalbTotals, SentenceScore
from keras_transformer.parsing.tree import Tree


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
    """Compare a parser's trees with those of a treebank as EVALB does.

    Args:
        gold: the treebank's trees, as bracketed lines or `Tree`s, without any cleaning.
        test: the parser's trees in the same order; an empty line for a missing one.
        parameters: the rules; defaults to those of `COLLINS.prm`.

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

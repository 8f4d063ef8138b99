"""`keras-transformer score`: print how probable given translations are."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from keras_transformer.toolkit.cli.pair_verbs import add_pair_arguments, answer_pairs

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


HELP = "print the log-probabilities of given translations"
DESCRIPTION = """Print the natural log-probability of each target line given its source line, end
of sentence included, one number a line."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_pair_arguments(parser)
    parser.add_argument(
        "--normalize",
        action="store_true",
        help="divide by the number of target tokens, end of sentence included",
    )


def score(values: argparse.Namespace) -> None:
    """Run the verb."""
    answer_pairs(values, ScoreLines(values.normalize), {"normalize": values.normalize})


class ScoreLines(NamedTuple):
    """Returns the scores of pairs as lines."""

    normalize: bool

    def __call__(
        self, translator: "Translator", sources: Sequence[str], targets: Sequence[str]
    ) -> list[str]:
        scores = translator.score(sources, targets, normalize=self.normalize)
        return [f"{value:.6f}" for value in scores]

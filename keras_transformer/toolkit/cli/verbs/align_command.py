"""`keras-transformer align`: align the words of a source and its translation."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_transformer.toolkit.cli.verbs.score_command import add_pair_arguments, answer_pairs

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


HELP = "align the words of sources and given translations"
DESCRIPTION = """Print, for each pair of lines, the source word of every target word by the model's
cross-attention, as `source-target` pairs of word numbers from 0 (Pharaoh format)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_pair_arguments(parser)


def align(values: argparse.Namespace) -> None:
    """Run the verb."""
    answer_pairs(values, align_lines)


def align_lines(
    translator: "Translator", sources: Sequence[str], targets: Sequence[str]
) -> list[str]:
    """Return the alignments of pairs as lines."""
    return [alignment.pharaoh() for alignment in translator.align(sources, targets)]

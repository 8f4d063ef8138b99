"""`keras-transformer align`: align the words of a source and its translation."""

import argparse
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_transformer.toolkit.cli.verbs.score_command import add_pair_arguments, answer_pairs

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


HELP = "align the words of source sentences and their translations"
DESCRIPTION = """For each pair of lines, print the source word that the model's cross-attention
assigns to each target word, as `source-target` pairs of word numbers that start at 0 (Pharaoh
format)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_pair_arguments(parser)


def align(values: argparse.Namespace) -> None:
    """Run the verb."""
    answer_pairs(values, align_lines)


def align_lines(
    translator: "Translator", sources: Sequence[str], targets: Sequence[str]
) -> list[str]:
    """Return the alignment of each pair as a line."""
    return [alignment.pharaoh() for alignment in translator.align(sources, targets)]

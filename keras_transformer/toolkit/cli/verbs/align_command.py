"""`keras-transformer align`: align the words of a source and its translation."""

import argparse
import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from keras_transformer.text.pharaoh import pharaoh, symmetrize
from keras_transformer.toolkit.cli.verbs.score_command import add_pair_arguments, answer_pairs

if TYPE_CHECKING:
    from keras_transformer.inference.translator import Translator


HELP = "align the words of source sentences and their translations"
DESCRIPTION = """For each pair of lines, print the source word that the model's alignment head, or
else its cross-attention, assigns to each target word, as `source-target` pairs of word numbers that
start at 0 (Pharaoh format)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_pair_arguments(parser)
    parser.add_argument(
        "--symmetrize",
        metavar="RUN",
        help="also align with this run of the opposite direction, and combine both alignments "
        "(grow-diag)",
    )


def align(values: argparse.Namespace) -> None:
    """Run the verb."""
    opposite = values.symmetrize
    lines_of = functools.partial(align_lines, opposite)
    answer_pairs(values, lines_of, {} if opposite is None else {"symmetrize": opposite})


def align_lines(
    opposite: str | None, translator: "Translator", sources: Sequence[str], targets: Sequence[str]
) -> list[str]:
    """Return the alignment of each pair as a line.

    Args:
        opposite: run of the opposite direction to align with too, or None.
        translator, sources, targets: as in `Translator.align`.
    """
    forward = [alignment.word_pairs() for alignment in translator.align(sources, targets)]
    if opposite is None:
        return [pharaoh(links) for links in forward]
    backward = _opposite(opposite, translator.search_options.max_source_length).align(
        targets, sources
    )
    return [
        pharaoh(symmetrize(links, [link[::-1] for link in alignment.word_pairs()]))
        for links, alignment in zip(forward, backward, strict=True)
    ]


@functools.cache
def _opposite(run: str, max_source_length: int) -> "Translator":
    """Load the run of the opposite direction, once in a process."""
    from keras_transformer.inference.translator import Translator

    return Translator.load(run, max_source_length=max_source_length, engine="own")

"""The alignment error rate, and the reference alignments that it needs."""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from keras_transformer.argument_checks import check_equal_numbers
from keras_transformer.errors import refuse
from keras_transformer.text.pharaoh import Link, parse_pharaoh, read_pharaoh
from keras_transformer.types import PathLike

_POSSIBLE = re.compile(r"(?<=\d)[?p](?=\d)")


class ReferenceLinks(NamedTuple):
    """The alignment of a pair by human annotators.

    Args:
        sure: links that are clear.
        possible: links that are not clear.
    """

    sure: list[Link]
    possible: list[Link]


def alignment_error_rate(
    alignments: Sequence[Collection[Link]],
    references: Sequence[Collection[Link]],
    possible: Sequence[Collection[Link]] | None = None,
) -> float:
    """Compute the alignment error rate (AER) of word alignments.

    Args:
        alignments: links of each pair, `(source word, target word)`, such as those of
            `Alignment.word_pairs`.
        references: the sure links of each pair.
        possible: further links of each pair that are not errors; None means none.

    Returns:
        A number from 0, if all sure links and no impossible links were found, to 1.

    Raises:
        UserInputError: the lists differ in length, or contain no links.

    Example:
        >>> round(alignment_error_rate([[(0, 0), (1, 1)]], [[(0, 0), (1, 2)]]), 3)
        0.5

    Reference: Och and Ney, "A Systematic Comparison of Various Statistical Alignment Models", 2003.
    """
    check_equal_numbers("references", references, "alignments", alignments)
    possible = [()] * len(references) if possible is None else possible
    check_equal_numbers("references", references, "possible", possible)
    hits = total = 0
    for links, sure, unsure in zip(
        map(set, alignments), map(set, references), possible, strict=True
    ):
        hits += len(links & sure) + len(links & (sure | set(unsure)))
        total += len(links) + len(sure)
    if not total:
        refuse("references", "contain at least one link", references)
    return 1 - hits / total


def read_reference_links(path: PathLike) -> list[ReferenceLinks]:
    """Read reference alignments, one line per pair, such as `0-0 2-1 3?1`.

    Args:
        path: a file in Pharaoh format, plain or .gz, in which `?` or `p` instead of `-` marks a
            possible link.

    Raises:
        UserInputError: the file is missing or contains anything else.
    """
    return list(read_pharaoh(path, _parse_reference))


def _parse_reference(line: str) -> ReferenceLinks:
    parts = line.split()
    unsure = [_POSSIBLE.sub("-", part) for part in parts if _POSSIBLE.search(part)]
    sure = [part for part in parts if not _POSSIBLE.search(part)]
    return ReferenceLinks(*(parse_pharaoh(" ".join(each)) for each in (sure, unsure)))


def error_rate_against(
    references: Sequence[ReferenceLinks], alignments: Iterable[Collection[Link]]
) -> float:
    """Return the `alignment_error_rate` of alignments against references from a file."""
    sure, possible = zip(*references, strict=True)
    return alignment_error_rate(list(alignments), sure, possible)

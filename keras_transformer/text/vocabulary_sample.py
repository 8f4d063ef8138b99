"""Samples of texts of any length, for training a vocabulary."""

import random
from collections.abc import Iterable
from typing import TypeVar

from keras_transformer.argument_checks import check_no_string, check_positive_int

_T = TypeVar("_T")


def sample_lines(lines: Iterable[str], most: int, seed: int = 0) -> list[str]:
    """Draw at most `most` lines, each with the same probability, in the order of the text.

    The lines are read once, and only the sample is kept in memory. Use it for texts larger than
    memory, as `SentencePieceTokenizer.train` keeps all of its lines there.

    Args:
        lines: the lines; blank ones are left out.
        most: number of lines to draw; a shorter text is returned whole.
        seed: the result depends only on the arguments.

    Returns:
        The drawn lines.

    Raises:
        ValueError: `most` is not a positive integer, or `lines` is a string.

    Example:
        >>> sample_lines(["one", "", "two", "three"], most=3)
        ['one', 'two', 'three']

    Reference:
        Vitter, 1985, Random Sampling with a Reservoir, algorithm R.
    """
    check_positive_int("most", most)
    check_no_string("lines", lines)
    sample, _ = draw_some(filter(str.strip, lines), most, random.Random(seed))
    return [line for _, line in sorted(sample)]


def draw_some(
    items: Iterable[_T], most: int, generator: random.Random
) -> tuple[list[tuple[int, _T]], int]:
    """Draw at most `most` items in one pass: `(number, item)` pairs, and the number of items."""
    sample: list[tuple[int, _T]] = []  # a reservoir of equally likely items
    seen = 0
    for seen, item in enumerate(items, start=1):
        if len(sample) < most:
            sample.append((seen, item))
        elif (place := generator.randrange(seen)) < most:
            sample[place] = (seen, item)
    return sample, seen

"""A sample of a text of any length, for training a vocabulary."""

import operator
import random

from keras_transformer.argument_checks import check_positive_int


def sample_lines(lines, most, seed=0):
    """Draw at most `most` lines, each with the same probability, in the order of the text.

    One pass over the lines; only the sample is in memory. `SentencePieceTokenizer.train` holds all
    of its lines in memory, so a text larger than that is sampled first.

    Args:
        lines: iterable of strings; blank ones are left out.
        most: integer, number of lines to draw; a shorter text is returned whole.
        seed: integer. The result depends on the arguments alone.

    Returns:
        A list of strings.

    Raises:
        ValueError: `most` is no positive integer.

    Example:
        >>> sample_lines(["one", "", "two", "three"], most=3)
        ['one', 'two', 'three']

    Reference:
        Vitter, 1985, Random Sampling with a Reservoir, algorithm R.
    """
    check_positive_int("most", most)
    generator = random.Random(seed)
    reservoir, seen = [], 0
    for line in lines:
        if not line.strip():
            continue
        seen += 1
        if len(reservoir) < most:
            reservoir.append((seen, line))
            continue
        place = generator.randrange(seen)
        if place < most:
            reservoir[place] = (seen, line)
    reservoir.sort(key=operator.itemgetter(0))
    return [line for _, line in reservoir]

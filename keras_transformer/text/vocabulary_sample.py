"""A sample of a text of any length, for training a vocabulary."""

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
    sample, _ = draw_some(filter(str.strip, lines), most, random.Random(seed))
    return [line for _, line in sorted(sample)]


def draw_some(items, most, generator):
    """Draw at most `most` items in one pass: `(number, item)`s, and how many there are."""
    sample, seen = [], 0  # a reservoir: every item so far is in it with the same probability
    for seen, item in enumerate(items, start=1):
        if len(sample) < most:
            sample.append((seen, item))
        elif (place := generator.randrange(seen)) < most:
            sample[place] = (seen, item)
    return sample, seen

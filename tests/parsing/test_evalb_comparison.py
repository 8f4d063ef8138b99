"""Crossing brackets: the fast search gives what comparing all pairs gives."""

import random

from keras_transformer.parsing.evalb import count_crossing
from keras_transformer.parsing.evalb_scores import EvalbParameters, EvalbSentence


def brackets(generator, words):
    """Those of a random tree over some words, one in ten broken."""
    parts = ["(P a)"] * words
    for _ in range(generator.randrange(12)):
        start = generator.randrange(len(parts))
        stop = start + generator.randrange(6)
        parts[start:stop] = [f"(S {' '.join(parts[start:stop])})"]
    line = " ".join(parts)
    if generator.random() < 0.1:
        line = line.replace(")", "", 1)
    return EvalbSentence(line, EvalbParameters()).brackets


def cross(one, other):
    return (
        one.start < other.start < one.end < other.end
        or other.start < one.start < other.end < one.end
    )


def test_the_crossing_brackets_of_random_trees():
    generator = random.Random(1)
    crossing = 0
    for _ in range(1000):
        words = generator.randrange(1, 15)
        ours, others = brackets(generator, words), brackets(generator, words)
        expected = sum(any(cross(one, other) for one in ours) for other in others)
        assert count_crossing(ours, others, 30) == expected
        crossing += expected
    assert crossing > 500

"""EVALB's comparison of two small trees."""

from keras_transformer.parsing.evalb import compare
from keras_transformer.parsing.evalb_scores import VALID, EvalbParameters


def score(gold, test, **parameters):
    return compare(gold, test, EvalbParameters(**parameters))


def counts(gold, test, **parameters):
    """Brackets: matched, of the gold tree, of the other, crossing."""
    found = score(gold, test, **parameters)
    assert found.status == VALID, found.fault
    return found.matched, found.gold_brackets, found.test_brackets, found.crossing

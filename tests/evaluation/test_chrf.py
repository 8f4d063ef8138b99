import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation import chrf


def test_chrf_equals_the_closed_formula():
    # Character n-grams of "abcd" that are in "abcde", of orders 1 to 4: all 4, 3, 2, 1 of them, out
    # of 5, 4, 3, 2. Order 5 and 6 have none in the hypothesis and are left out.
    precision = 1.0
    recall = (4 / 5 + 3 / 4 + 2 / 3 + 1 / 2) / 4
    score, signature = chrf(["abcd"], ["abcde"])
    assert score == pytest.approx(100 * 5 * precision * recall / (4 * precision + recall))
    assert "nc:6" in signature
    assert "nw:0" in signature


def test_white_space_is_not_counted_and_case_is():
    assert chrf(["Haus am See ."], ["Haus am See."])[0] == pytest.approx(100)
    assert chrf(["haus am see."], ["Haus am See."])[0] < 90


@pytest.mark.parametrize(("hypotheses", "references"), [([], []), (["a"], ["a", "b"])])
def test_lists_that_do_not_pair_are_refused(hypotheses, references):
    with pytest.raises(UserInputError, match=f"{len(hypotheses)} hypotheses"):
        chrf(hypotheses, references)

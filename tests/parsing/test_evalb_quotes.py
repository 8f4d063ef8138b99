"""EVALB's quotation marks: deleted by one tree's tag alone, they are put back."""

from keras_transformer.parsing.evalb_scores import ERROR, VALID
from tests.parsing.evalb_counts import counts, score


def test_a_quotation_mark_that_one_tag_deletes_is_put_back():
    gold = "(S (A (P a) (`` ')) (B (P b)))"
    test = "(S (A (P a) (POS ')) (B (P b)))"
    assert score(gold, test).status == ERROR
    rules = {"quote_labels": ("``", "''", "POS")}
    for pair in ((gold, test), (test, gold)):
        assert counts(*pair, **rules) == (3, 3, 3, 0)
        assert score(*pair, **rules).words == 3
        assert score(*pair, **rules).correct_tags == 2


def test_a_quotation_mark_is_put_back_where_it_stood():
    """Brackets before it keep their words, those around it grow, those behind it move."""
    gold = '(S (A (P a)) (B (C (P b)) (`` ") (D (P c))) (E (P d)))'
    rules = {"quote_labels": ("``", "NN")}
    kept = gold.replace("``", "NN")
    assert counts(gold, kept, **rules) == (6, 6, 6, 0)
    outside = '(S (A (P a)) (B (C (P b))) (NN ") (D (P c)) (E (P d)))'
    assert counts(gold, outside, **rules) == (5, 6, 6, 0)  # B has lost the mark and D


def test_several_quotation_marks_are_put_back():
    gold = "(S (A (`` ') (P a)) (B (P b) ('' ') (P c)) ('' \"))"
    rules = {"quote_labels": ("``", "''", "NN")}
    kept = gold.replace("``", "NN").replace("''", "NN")
    for pair in ((gold, kept), (kept, gold)):
        assert counts(*pair, **rules) == (3, 3, 3, 0)
        assert score(*pair, **rules).words == 6


def test_a_mark_put_back_is_met_again_by_the_next_as_in_the_c_program():
    """Of two different marks side by side EVALB puts the first back twice: a quirk it has."""
    gold, test = "(S (P a) (`` ') (`` \"))", "(S (P a) (NN ') (NN \"))"
    found = score(gold, test, quote_labels=("``", "NN"))
    assert found.fault == "the word `'` of the gold tree is `\"` in the other"


def test_a_mark_that_both_tags_delete_stays_deleted():
    gold, test = "(S (`` ') (P a) ('' \"))", "(S (`` ') (P a) (NN \"))"
    found = score(gold, test, quote_labels=("``", "''", "NN"))
    assert (found.status, found.words) == (VALID, 2)


def test_only_quotation_marks_are_put_back():
    rules = {"quote_labels": ("``", "NN")}
    assert score("(S (P a) (`` x))", "(S (P a) (NN x))", **rules).status == ERROR


def test_marks_stay_deleted_where_the_numbers_of_words_agree():
    rules = {"quote_labels": ("``", "NN")}
    gold, test = "(S (`` ') (P a) (P '))", "(S (NN ') (P a) (`` '))"
    assert score(gold, test, **rules).status == ERROR  # a ' against ' a: words differ

"""EVALB: its figures, sentence by sentence, as the C program gives them.

Its sample files are compared line by line with its own output; the small trees prove one rule
each, with figures counted by hand.
"""

import pathlib

import pytest

from keras_transformer.parsing import Leaf, Tree
from keras_transformer.parsing.evalb import HEADING, compare, evaluate, result_text, sentence_row
from keras_transformer.parsing.evalb_scores import ERROR, SKIPPED, VALID, EvalbParameters
from tests.parsing.evalb_counts import counts, score

SAMPLE = pathlib.Path(__file__).with_name("evalb_sample")
COLLINS = EvalbParameters()
GOLD = "(S (A (P this)) (B (Q is) (A (R a) (T test))))"


def report(gold, test, parameters):
    result = evaluate(gold, test, parameters)
    rows = [sentence_row(number, one) for number, one in enumerate(result.scores, start=1)]
    return "\n".join([HEADING, *rows, result_text(result)]).splitlines()


def lines(path):
    return path.read_text("utf-8").splitlines()


@pytest.mark.parametrize(
    ("name", "output", "parameters"),
    [
        ("sample", "sample.evalb_out", "sample.prm"),
        ("bug", "bug.new.evalb_out", "new.prm"),
    ],
)
def test_every_line_is_that_of_the_c_program(name, output, parameters):
    gold, test = lines(SAMPLE / f"{name}.gld"), lines(SAMPLE / f"{name}.tst")
    assert report(gold, test, EvalbParameters.read(SAMPLE / parameters)) == lines(SAMPLE / output)


def test_the_sample_with_the_rules_of_the_sample():
    gold, test = lines(SAMPLE / "sample.gld"), lines(SAMPLE / "sample.tst")
    found = evaluate(gold, test, EvalbParameters.read(SAMPLE / "sample.prm")).as_dict()
    assert found == {
        "all": {
            "sentences": 24, "error": 5, "skipped": 2, "valid": 17,
            "recall": 87.76, "precision": 90.53, "f1": 89.12,
            "complete_match": 52.94, "average_crossing": 0.06,
            "no_crossing": 94.12, "two_or_less_crossing": 100.0, "tagging_accuracy": 98.15,
        },
        "len<=40": {
            "sentences": 23, "error": 5, "skipped": 2, "valid": 16,
            "recall": 81.25, "precision": 85.25, "f1": 83.20,
            "complete_match": 50.0, "average_crossing": 0.06,
            "no_crossing": 93.75, "two_or_less_crossing": 100.0, "tagging_accuracy": 96.88,
        },
    }  # fmt: skip


def test_the_sample_with_the_rules_of_collins():
    """`This` then differs from `this`, which is a sixth error, and tag `TT` from `T`."""
    gold, test = lines(SAMPLE / "sample.gld"), lines(SAMPLE / "sample.tst")
    rules = EvalbParameters.read(SAMPLE / "COLLINS.prm")
    assert rules == COLLINS
    found = evaluate(gold, test, rules)
    assert found.as_dict()["all"] == {
        "sentences": 24, "error": 6, "skipped": 2, "valid": 16,
        "recall": 87.23, "precision": 90.11, "f1": 88.65,
        "complete_match": 50.0, "average_crossing": 0.06,
        "no_crossing": 93.75, "two_or_less_crossing": 100.0, "tagging_accuracy": 97.12,
    }  # fmt: skip
    assert found.scores[18].fault == "the word `this` of the gold tree is `This` in the other"


CROSSED = "(S (A (P a) (P b) (P c)) (B (P d)) (C (P e) (P g)) (P f))"
OTHER_LABELS = "(S (C (P this)) (D (Q is) (A (R a) (T test))))"
OF_X = {"delete_labels": ("TOP", "X")}
COUNTED = [
    (GOLD, GOLD, {}, (4, 4, 4, 0)),
    (GOLD, "(S (A (P this)) (B (Q is) (C (R a) (T test))))", {}, (3, 4, 4, 0)),
    (GOLD, "(S (A (P this) (Q is)) (A (R a) (T test)))", {}, (2, 4, 3, 1)),
    (GOLD, "(P this) (Q is) (R a) (T test)", {}, (0, 4, 0, 0)),
    (GOLD, "(S (A (P this)) (B (Q is) (A (A (R a) (T test)))))", {}, (4, 4, 5, 0)),
    (GOLD, "(TOP (S (A (P this)) (B (Q is) (A (R a) (T test)))))", {}, (4, 4, 4, 0)),
    (GOLD, "(S(A(P this))(B(Q is)(A\t(R  a)(T test))))", {}, (4, 4, 4, 0)),
    (GOLD, OTHER_LABELS, {}, (2, 4, 4, 0)),
    (GOLD, OTHER_LABELS, {"labeled": False}, (4, 4, 4, 0)),
    # A bracket is matched once.
    ("(X (X (X (P a))))", "(X (P a))", {}, (1, 3, 1, 0)),
    ("(X (P a))", "(X (X (X (P a))))", {}, (1, 1, 3, 0)),
    # Of the parser's brackets, each that crosses counts once: X crosses two gold brackets, Y one.
    (CROSSED, "(S (P a) (P b) (X (P c) (P d) (P e)) (Y (P g) (P f)))", {}, (1, 4, 3, 2)),
    # A bracket without words is deleted; a deleted bracket leaves what is within.
    ("(S (NP (-NONE- *)) (A (P a)))", "(S (A (P a)))", {}, (2, 2, 2, 0)),
    ("(TOP (S (X (A (P a)))))", "(S (A (P a)))", OF_X, (2, 2, 2, 0)),
    ("(S (Y (P a)))", "(S (P a))", {**OF_X, "equal_labels": (("X", "Y"),)}, (1, 1, 1, 0)),
]


@pytest.mark.parametrize(("gold", "test", "rules", "expected"), COUNTED)
def test_brackets_are_matched_by_words_and_label(gold, test, rules, expected):
    assert counts(gold, test, **rules) == expected


def test_labels_are_cut_and_tags_are_not():
    gold, test = "(S-X=1 (NP-SBJ (NN-X a)) (S|NP=2 (P b)))", "(S (NP (NN a)) (S|NP (P b)))"
    assert counts(gold, test) == (3, 3, 3, 0)
    assert score(gold, test).correct_tags == 1


def test_words_are_deleted_by_the_tag_of_their_own_tree():
    gold = "(S (A (P a) (, x)) (B (P b)))"
    assert counts(gold, "(S (A (P a)) (, x) (B (P b)))") == (3, 3, 3, 0)
    found = score(gold, "(S (A (P a) (P x)) (B (P b)))")
    assert (found.status, found.fault) == (ERROR, "2 words in the gold tree, 3 in the other")


def test_the_length_has_its_own_deleted_labels():
    tree = "(S (P a) (, ,) (-NONE- *))"
    assert score(tree, tree).length == 2
    assert score(tree, tree, delete_labels_for_length=("-NONE-", ",")).length == 1
    assert score(tree, "").length == 2  # of a sentence that was left out, too


def test_equal_labels_and_words_hold_both_ways():
    pair = "(S (ADVP (P a)))", "(S (PRT (P a)))"
    for gold, test in (pair, pair[::-1]):
        assert counts(gold, test) == (2, 2, 2, 0)
        assert counts(gold, test, equal_labels=()) == (1, 2, 2, 0)
    tags = score("(S (ADVP a))", "(S (PRT a))")
    assert tags.correct_tags == 1
    words = score("(S (P a))", "(S (P A))", equal_words=(("A", "a"),))
    assert words.status == VALID
    assert score("(S (P a))", "(S (P A))").status == ERROR


def test_complete_match_and_two_or_less_crossing():
    """A bracket too many or too few makes a match incomplete; 0, 2 and 3 crossings."""
    words = [f"(P {letter})" for letter in "abcdefgh"]
    gold = "(S (A {} {}) (A {} {}) (A {} {}) (A {} {}))".format(*words)
    whole = "(S {} {} {} {} {} {} {} {})".format(*words)
    two = "(S {} (A {} {}) (A {} {}) {} {} {})".format(*words)
    three = "(S {} (A {} {}) (A {} {}) (A {} {}) {})".format(*words)
    found = evaluate([gold] * 5, [gold, gold.replace("S", "S (X", 1) + ")", whole, two, three]).all
    assert found.complete_match == 20.0
    assert evaluate([gold], [gold.replace("A", "X", 1)]).all.complete_match == 0.0
    assert (found.no_crossing, found.two_or_less_crossing) == (60.0, 80.0)
    assert found.average_crossing == 1.0


@pytest.mark.parametrize(
    ("test", "status", "fault"),
    [
        ("", SKIPPED, None),
        ("   ", SKIPPED, None),
        ("(S (-NONE- *) (, ,))", SKIPPED, None),
        ("(S (P a))", ERROR, "2 words in the gold tree, 1 in the other"),
        ("(S (P a) (P c))", ERROR, "the word `b` of the gold tree is `c` in the other"),
        ("(S (P a) (P b)", ERROR, "the other tree: 1 closing bracket(s) missing"),
        ("(S (P a) (P b)))", ERROR, "the other tree: a closing bracket too many"),
        ("(S (P a) (P b) c)", ERROR, "the other tree: `c` is outside of (TAG WORD)"),
    ],
)
def test_what_is_skipped_and_what_is_an_error(test, status, fault):
    found = score("(S (P a) (P b))", test)
    assert (found.status, found.fault) == (status, fault)


def test_a_broken_gold_tree_is_an_error():
    assert score("(S (P a)", "(S (P a))").fault == "the gold tree: 1 closing bracket(s) missing"


def test_errors_and_skips_count_alone_also_past_max_error():
    tests = ["(S (P a))"] * 30 + [GOLD, ""]
    found = evaluate([GOLD] * 32, tests, EvalbParameters(max_error=2)).all
    assert (found.sentences, found.error, found.skipped, found.valid) == (32, 30, 1, 1)
    assert (found.recall, found.f1, found.complete_match) == (100.0, 100.0, 100.0)


def test_nothing_valid_is_zero_and_no_division():
    found = evaluate([GOLD], [""]).as_dict()["all"]
    assert (found["f1"], found["average_crossing"], found["tagging_accuracy"]) == (0.0, 0.0, 0.0)
    nothing_matched = evaluate(["(S (P a))"], ["(X (P a))"]).all
    assert (nothing_matched.valid, nothing_matched.f1) == (1, 0.0)


def test_the_cut_off_is_of_gold_lengths_and_names_its_key():
    gold = ["(S (P a) (P b))", "(S (P a) (P b) (P c))"]
    test = ["(S (P a) (P b))", "(X (P a) (P b) (P c))"]
    found = evaluate(gold, test, EvalbParameters(cutoff_length=2)).as_dict()
    assert list(found) == ["all", "len<=2"]
    assert (found["all"]["recall"], found["len<=2"]["recall"]) == (50.0, 100.0)
    assert (found["all"]["sentences"], found["len<=2"]["sentences"]) == (2, 1)


def test_a_tree_is_as_good_as_its_line():
    tree = Tree("S", (Tree("A", (Leaf("P", "a"),)), Leaf("P", "b")))
    assert evaluate([tree], [str(tree)]).all.f1 == 100.0


def test_trees_of_any_depth():
    deep = "(X " * 20_000 + "(P a)" + ")" * 20_000
    assert counts(deep, deep) == (20_000, 20_000, 20_000, 0)


def test_unequal_numbers_of_trees():
    with pytest.raises(ValueError, match="as many .* gold_trees=2, test_trees=1"):
        evaluate([GOLD] * 2, [GOLD])


@pytest.mark.parametrize(
    ("gold", "test", "expected"),
    [
        # Quadratic: 10^10 comparisons.
        (f"{'(S ' * 100_000}(P a){')' * 100_000}", f"{'(V ' * 100_000}(P a){')' * 100_000}", 0),
        (
            f"{'(S (P a)' * 100_000}{')' * 100_000}",
            f"{'(S ' * 100_000}{'(P a))' * 100_000}",
            99_998,
        ),
    ],
    ids=["other-labels", "crossing"],
)
def test_100_000_brackets_that_do_not_agree(gold, test, expected):
    found = compare(gold, test, EvalbParameters())
    assert found.crossing == expected
    assert found.matched == (expected > 0)


def test_more_quotation_marks_than_any_sentence_has_stay_deleted():
    gold = "(S (P a)" + " (`` ')" * 50_000 + ")"
    found = score(gold, gold.replace("``", "NN"), quote_labels=("``", "NN"))
    assert found.fault == "1 words in the gold tree, 50001 in the other"


def test_a_long_word_is_cut_in_the_message():
    found = score(f"(S (P {'a' * 1_000_000}))", "(S (P b))")
    assert len(found.fault) < 200

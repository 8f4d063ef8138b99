"""What EVALB's debug levels print: compared once with the C program, here on small trees."""

from keras_transformer.parsing.evalb import bracket_text, debug_text
from keras_transformer.parsing.evalb_comparison import EvalbComparison
from keras_transformer.parsing.evalb_parameters import EvalbParameters

COLLINS = EvalbParameters()


def test_debug_shows_words_and_brackets_with_their_results():
    """As the C program's DEBUG 1: 0 no match, 1 match, 5 deleted."""
    comparison = EvalbComparison("(TOP (S (A (P a)) (P b)))", "(S (B (P a)) (Q b))", COLLINS)
    assert debug_text(comparison).splitlines() == [
        "-<1>---(wn1=  2, bn1=  3)-           -<2>---(wn2=  2, bn2=  2)-",
        "  0 : 1 : P       a                       0 : 1 : P       a               ",
        "  1 : 0 : P       b                       1 : 0 : Q       b               ",
        "",
        "  0 : 5 :   0    2  TOP           0 : 1 :   0    2  S     ",
        "  1 : 1 :   0    2  S             1 : 0 :   0    1  B     ",
        "  2 : 0 :   0    1  A           ",
        "",
        "========",
    ]


def test_debug_names_the_brackets_that_do_not_agree():
    gold = "(S (A (P a)) (B (P b) (P c)) (P d))"
    test = "(S (C (P a)) (P b) (D (P c) (P d)))"
    assert bracket_text(EvalbComparison(gold, test, COLLINS)).splitlines() == [
        "",
        "  LABEL[0-0]:  (P a)",
        "  BRACKET[1-2]:  (P b) (P c)",
        "  EXTRA[2-3]:  (P c) (P d)",
        "  CROSSING[1-2]:  (P b) (P c)",
    ]


def test_debug_names_a_crossed_bracket_once_in_a_row():
    gold, test = "(S (P a) (A (P b) (P c)) (P d))", "(S (X (Y (P a) (P b))) (P c) (P d))"
    comparison = EvalbComparison(gold, test, COLLINS)
    assert comparison.score.crossing == 2
    assert bracket_text(comparison).count("CROSSING") == 1

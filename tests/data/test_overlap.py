"""Overlap: test sentences that a training has seen."""

import pytest

from keras_transformer.data import Overlap, SentencePairs, count_overlap, count_overlaps

TRAINING = [("a house", "ein Haus"), ("a tree", "ein Baum"), ("a house", "das Haus"), ("", "x")]


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ([("a cat", "eine Katze")], Overlap(0, 0, 1)),
        ([("a tree", "der Baum")], Overlap(1, 0, 1)),
        ([("a tree", "ein Baum")], Overlap(1, 1, 1)),
        # The second translation of a source is known too.
        ([("a house", "ein Haus"), ("a house", "das Haus")], Overlap(2, 2, 2)),
        # The target of another source.
        ([("a house", "ein Baum")], Overlap(1, 0, 1)),
        # Each test sentence counts, also where two are the same.
        ([("a tree", "ein Baum"), ("a tree", "ein Baum"), ("b", "c")], Overlap(2, 2, 3)),
        ([(" a  tree\u00a0", "ein Baum\t")], Overlap(1, 1, 1)),
        ([("A tree", "ein Baum")], Overlap(0, 0, 1)),
        ([("", "x"), (" ", "x")], Overlap(0, 0, 2)),
        ([], Overlap(0, 0, 0)),
    ],
)
def test_known_sentences_are_counted(test, expected):
    text = SentencePairs([source for source, _ in test], [target for _, target in test])
    assert count_overlap(TRAINING, text) == expected


def test_the_training_text_is_a_stream():
    stream = ((f"sentence {number}", "x") for number in range(1000))
    assert count_overlap(stream, [("sentence 999", "y")]) == Overlap(1, 0, 1)


def test_report_is_a_sentence():
    assert Overlap(1, 0, 1014).report("dev") == (
        "dev: 1 of 1,014 source sentences occur in the training text, 0 with their target"
    )


def test_several_texts_are_counted_in_one_pass():
    once = iter(TRAINING)  # a second pass would find nothing
    tests = [[("a tree", "ein Baum")], [("a tree", "der Baum"), ("a cat", "eine Katze")]]
    assert count_overlaps(once, tests) == [Overlap(1, 1, 1), Overlap(1, 0, 2)]

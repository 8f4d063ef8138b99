"""Links between words by attention."""

import numpy as np
import pytest

from keras_transformer.text.markup.word_links import Side, word_links
from tests.text.markup.aligned import words

END = "</s>"


def linked(source, target, attention, stand_ins=()):
    """The linked words of texts whose tokens are words with the space before them.

    Args:
        source, target: the texts.
        attention: the number of the token that each token of the target attends to.
        stand_ins: pairs of words.
    """
    own = [tuple(pair) for pair in stand_ins]
    sides = []
    for number, text in enumerate((source, target)):
        tokens = [(max(start - 1, 0), end) for start, end in words(text)]
        places = [(text.index(pair[number]), text.index(pair[number]) + 1) for pair in own]
        sides.append(Side(text, tokens, places))
    weights = np.full((len(sides[1].tokens), len(sides[0].tokens) + 1), 0.01)
    weights[np.arange(len(attention)), attention] = 0.5
    return {
        (source[start:end], target[first:last])
        for start, end, first, last in word_links(*sides, weights)
    }


@pytest.mark.parametrize(
    ("source", "target", "attention", "expected"),
    [
        ("a red car", "un coche rojo", [0, 2, 1], {("a", "un"), ("red", "rojo"), ("car", "coche")}),
        # The end of the sentence, and punctuation, are no words.
        ("a red car", "un coche rojo", [3, 2, 3], {("car", "coche")}),
        ("a - car", "un coche", [1, 2], {("car", "coche")}),
        # Punctuation is linked with the same.
        ("a , b !", "x ! y ,", [0, 0, 2, 0], {("a", "x"), ("!", "!"), ("b", "y"), (",", ",")}),
        ("a . b", "x ! y", [0, 1, 2], {("a", "x"), ("b", "y")}),
        # Parts of a token.
        ("(red) car.", "Auto (rot).", [1, 0],
         {("red", "rot"), ("car", "Auto"), ("(", "("), (")", ")"), (".", ".")}),
        # A name or number is linked with itself, unless there are several.
        ("in Paris 12", "à Paris 12", [0, 0, 0], {("in", "à"), ("Paris", "Paris"), ("12", "12")}),
        ("Paris in Paris", "à Paris", [1, 2], {("in", "à"), ("Paris", "Paris")}),
        ("a a", "a b", [1, 0], {("a", "a"), ("a", "b")}),
        ("", "x", [0], set()),
        ("x", "", [], set()),
    ],
)  # fmt: skip
def test_a_word_is_linked_with_what_it_attends_to(source, target, attention, expected):
    assert linked(source, target, attention) == expected


def test_stand_ins_are_linked_with_each_other_only():
    found = linked("see X or Y", "Y ou X vois", [1, 3, 0, 0], ["XX", "YY"])
    assert found == {("X", "X"), ("Y", "Y"), ("see", "vois")}
    assert linked("see X", "X vois", [0, 1], ["XX"]) == {("X", "X")}


def test_a_byte_within_a_character_has_an_empty_span():
    weights = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3]])
    target = Side("aé", [(0, 1), (1, 1), (1, 2)], [])
    assert word_links(Side("b", [(0, 1)], []), target, weights) == [(0, 1, 0, 2)]


def test_attention_to_a_hyphen_is_attention_to_the_word_around_it():
    source = Side("an old seventy-two", [(0, 2), (2, 6), (6, 14), (14, 15), (15, 18)], [])
    target = Side("zweiundsiebzig alte", [(0, 14), (14, 19)], [])
    weights = np.array([[0.1, 0.1, 0.2, 0.3, 0.2, 0.1], [0.2, 0.5, 0.1, 0.1, 0.1, 0.0]])
    assert word_links(source, target, weights) == [(7, 14, 0, 14), (3, 6, 15, 19)]

"""Sentences, words and trees as the JSON interface gives them, and what lies between sentences."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.inference.parser import Parse
from keras_transformer.parsing import Leaf, Tree
from keras_transformer.text.alignment import Alignment
from keras_transformer.toolkit.app.application import sentence_tree, word_alignment
from keras_transformer.toolkit.app.schemas import SentenceLayout


def aligned(source_pieces, target_pieces, source, target):
    """The alignment of pieces of which each target piece looks at the first source piece."""
    weights = np.zeros((len(target_pieces), len(source_pieces) + 1))
    weights[:, 0] = 1
    return word_alignment(
        Alignment([*source_pieces, "</s>"], target_pieces, weights), source, target
    )


@pytest.mark.parametrize(
    ("pieces", "text", "words"),
    [
        (["▁gr", "öße"], "Größe", ["Größe"]),  # the tokenizer has changed the case
        (["▁a", "▁b"], " a \u00a0 b\n", ["a", "b"]),
        ([">>deu<<", "▁a", "▁b"], "a b", [">>deu<<", "a", "b"]),
        ([">>deu<<", "▁a"], ">>deu<< a", [">>deu<<", "a"]),
        (["▁a", "▁b", "▁c"], "a_b_c", ["a", "b", "c"]),  # the tokenizer sees other words
        (["▁", "<0xF0>", "<0x9F>"], "", ["<0xF0><0x9F>"]),
        ([], "", []),
    ],
)
def test_words_are_spelled_as_in_the_text_where_they_are_the_same(pieces, text, words):
    assert aligned(["▁x"], pieces, "x", text).target_words == words
    assert aligned(pieces, ["▁x"], text, "x").source_words == words


def test_a_deep_tree_is_a_flat_list():
    tree = Tree("S", [Leaf("XX", "a")])
    for _ in range(5000):
        tree = Tree("S", [tree])
    found = sentence_tree(Parse(tree, -1.0, 0))
    assert [node.parent for node in found.nodes] == [None, *range(5001)]


def test_what_has_no_score_or_no_tree():
    flat = Tree("S", [Leaf("XX", "a")])
    assert sentence_tree(Parse(flat, -math.inf, 0)).score is None
    empty = sentence_tree(Parse(None, 0.0, 0))
    assert (empty.tree, empty.nodes, empty.score) == ("", [], 0.0)


TEXT = st.text(st.sampled_from("aB.!? \n\r\t\u2028\u00a0ä🎉\"'(1"), max_size=60)


@given(TEXT)
def test_nothing_of_a_text_is_lost(text):
    layout = SentenceLayout.of(text, "en")
    sources = [sentence.source for sentence in layout.sentences]
    assert layout.text(sources) == text
    assert all(source == source.strip() != "" for source in sources)
    assert all(not sentence.before.strip() for sentence in layout.sentences)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("One. Two.", ["One.", "Two."]),
        ("Mr. Smith came. He left.", ["Mr. Smith came.", "He left."]),
        ("no end\nno end\n\n\nnew paragraph", ["no end", "no end", "new paragraph"]),
        ("  a b  \r\n\tc", ["a b", "c"]),
        ("", []),
        (" \n ", []),
    ],
)
def test_sentences_end_with_their_lines_and_within_them(text, expected):
    assert [one.source for one in SentenceLayout.of(text, "en").sentences] == expected


def test_abbreviations_are_those_of_the_language():
    text = "Das ist z.B. Anna. Er kam am 3. Mai."
    assert [one.source for one in SentenceLayout.of(text, "de").sentences] == [
        "Das ist z.B. Anna.",
        "Er kam am 3. Mai.",
    ]

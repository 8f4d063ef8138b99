"""Sentences of a text, and what lies between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_transformer.toolkit.app.schemas import SentenceLayout

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

"""Words that stand for variables, and the white space around what they stand for."""

import pytest

from keras_transformer.text import SentencePieceTokenizer
from keras_transformer.text.stand_ins import StandIns
from keras_transformer.text.variables import find_variables


@pytest.fixture(scope="module")
def tokenizer():
    lines = [
        "see the X Y Z Q file in K now",
        "X Y Z",
        '( ) [ ] " : . , - / 参 见',
        '()[]":.,-/参见',
    ]
    return SentencePieceTokenizer.train(lines * 5, vocabulary_size=70)


@pytest.fixture(scope="module")
def restored(tokenizer):
    stand_ins = StandIns(tokenizer, tokenizer)

    def restored(source, output):
        """The text of an output that is written with X and Y in place of the variables."""
        kept = stand_ins.replace(source, find_variables(source))
        assert [each.word for each in kept.stand_ins] == ["X", "Y"][: len(kept.variables)]
        assert [kept.text[slice(*place)] for place in kept.places] == [
            each.word for each in kept.stand_ins
        ]
        (row,) = tokenizer.encode([output])
        text, places = stand_ins.restore(kept, row)
        for index, (start, end) in places.items():
            assert text[start:end] == kept.variables[index]
        return text

    return restored


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("see {x} in %s", "X the Y", "{x} the %s"),
        ("see {x} in %s", "the Y X see", "the %s {x} see"),
        # White space that the source has on a side.
        ("see {x} in", "参X见", "参 {x} 见"),
        ("see {x}, %s", "XY", "{x} %s"),
        ("see {x} in", "see (X).", "see ({x})."),
        ("{x}", "参X见", "参{x}见"),
        # No white space where the source has none, next to the same character.
        ("see ({x}) now", "( X ) see", "({x}) see"),
        ('the "{x}" file', 'file " X "', 'file "{x}"'),
        ("see /{x}/%s.", "/ X / Y .", "/{x}/%s."),
        ("see {x}: %s", "X : Y", "{x} : %s"),
        ("see ({x}) now", "[ X ] see", "[ {x} ] see"),
        ("see ({x})", "X", "{x}"),
        ("see the file", "file see", "file see"),
    ],
)
def test_the_white_space_around_variables(restored, source, output, expected):
    assert restored(source, output) == expected


@pytest.mark.parametrize(
    ("source", "output", "expected"),
    [
        ("see http://a.org now", "X-file see", "http://a.org -file see"),
        ("see http://a.org in http://b.org", "X-Y now", "http://a.org - http://b.org now"),
        ("see me@a.org", "see -X", "see - me@a.org"),
        ("see http://a.org, now", "see X, now", "see http://a.org, now"),
        ("see %s file", "X-file", "%s-file"),
        ("see {a} in {b}", "X/Y", "{a}/{b}"),
    ],
)
def test_text_that_would_lengthen_a_variable_is_apart(restored, source, output, expected):
    assert restored(source, output) == expected


def test_text_that_lengthens_a_variable_in_the_source_too_stays(tokenizer):
    stand_ins = StandIns(tokenizer, tokenizer)
    source = "see http://a.org/{id}/file"
    kept = stand_ins.replace(source, find_variables(source, r"\{id\}"))
    assert kept.text == "see http://a.org/X/file"
    (row,) = tokenizer.encode(["see /X/file"])
    assert stand_ins.restore(kept, row).text == "see /{id}/file"

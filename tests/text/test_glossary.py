"""Which terms occur in a sentence, and with which tokens an output can meet them."""

import gzip

import numpy as np
import pytest

from keras_transformer.errors import UserInputError
from keras_transformer.text import Glossary, SentencePieceTokenizer
from keras_transformer.text.glossary import TermEncoder, TermTags
from keras_transformer.text.words import forms_of, token_flags
from keras_transformer.types import ENDS_WORD, IS_GAP, JOINS_WORD, TERM_TAGS


def found(glossary, sentence):
    return [
        (sentence[start:end], "|".join(targets)) for start, end, targets in glossary.find(sentence)
    ]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The power supply has power.", [("power supply", "Netzteil"), ("power", "Kraft")]),
        ("power  supply", [("power  supply", "Netzteil")]),
        ("powerful empowers power2 power_x", []),
        ("(power)-'power'", [("power", "Kraft"), ("power", "Kraft")]),
        ("Power POWER", []),
        ("the SUN, the Sun", [("SUN", "Sonne"), ("Sun", "Sonne")]),
        ("I use .NET and C++.", [(".NET", ".NET"), ("C++", "C++")]),
        ("我在北京工作", [("北京", "Peking")]),
        ("cafe\u0301 and café", [("cafe\u0301", "Café"), ("café", "Café")]),
        ("cafés cafe", []),
        ("הבית גדול", [("הבית", "das Haus")]),
        ("", []),
    ],
)
def test_terms_are_whole_words_and_the_longest_wins(sentence, expected):
    terms = {
        "power": "Kraft",
        "power supply": "Netzteil",
        "sun": "Sonne",
        ".NET": ".NET",
        "C++": "C++",
        "北京": "Peking",
        "café": "Café",
        "הבית": "das Haus",
    }
    assert found(Glossary(terms, ignore_case=["sun"]), sentence) == expected


def test_a_file_has_a_term_per_line(tmp_path):
    path = tmp_path / "terms.tsv.gz"
    text = "house\tHaus|Häuser\n\nsun\tSonne\ti\nhouse\tHaus|Heim\ntree\tBaum\t\n"
    path.write_bytes(gzip.compress(text.encode()))
    glossary = Glossary.load(path)
    assert len(glossary) == 3
    assert found(glossary, "The SUN, the house, the tree") == [
        ("SUN", "Sonne"),
        ("house", "Haus|Häuser|Heim"),
        ("tree", "Baum"),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("house", "line 2: a term is `source TAB target`.* Received: 'house'"),
        ("house\tHaus\tx", "line 2: a term is"),
        ("house\tHaus\ti\tj", "line 2: a term is"),
        (" \tHaus", "line 2: `source` must be a term"),
        ("house\tHaus||Heim", "line 2: `target` must be one or more terms"),
        ("house\t", "line 2: `target` must be"),
    ],
)
def test_a_line_that_is_no_term_is_named(tmp_path, line, message):
    path = tmp_path / "terms.tsv"
    path.write_text(f"sun\tSonne\n{line}\n")
    with pytest.raises(UserInputError, match=message):
        Glossary.load(path)


@pytest.fixture(scope="module")
def tokenizer():
    lines = ["the house", "(house) house-tree", "houses, trees", "a tree. Trees 北京"] * 3
    return SentencePieceTokenizer.train(lines, vocabulary_size=45)


def test_a_form_follows_a_space_or_another_character(tokenizer):
    after_space, alone = (tokenizer.pieces(row) for row in forms_of(tokenizer, "tree"))
    assert after_space[0][0] == "▁"
    assert "".join(after_space) == f"▁{''.join(alone)}" == "▁tree"
    assert forms_of(tokenizer, "Ж") == []


def test_tokens_that_end_and_join_words(tokenizer):
    flags = token_flags(tokenizer, tokenizer.vocabulary_size + 3)
    assert len(flags) == tokenizer.vocabulary_size + 3
    known = {
        "▁": IS_GAP,
        "e": ENDS_WORD | JOINS_WORD,
        "▁t": ENDS_WORD,
        ".": 0,
        "(": 0,
        "北": 0,
        "<s>": 0,
        "</s>": 0,
    }
    for piece, expected in known.items():
        assert flags[tokenizer.piece_ids[piece]] == expected, piece


def test_byte_pieces_may_be_parts_of_letters():
    tokenizer = SentencePieceTokenizer.train(
        ["the house"] * 3, vocabulary_size=275, byte_fallback=True
    )
    flags = token_flags(tokenizer, tokenizer.vocabulary_size)
    assert flags[tokenizer.piece_ids["<0xE4>"]] == ENDS_WORD | JOINS_WORD
    assert all(len(row) > 1 for row in forms_of(tokenizer, "Ж"))


def test_terms_are_counted_and_those_with_few_forms_come_first(tokenizer):
    glossary = Glossary({"house": ["tree", "trees"], "sun": "tree"})
    forms = TermEncoder(tokenizer).forms("house, sun and house", glossary)
    numbers = [(form.term, form.times) for form in forms]
    assert numbers == sorted(numbers)
    assert {*numbers} == {(0, 1), (1, 2)}
    with pytest.raises(UserInputError, match="must have the characters of a term.*'Ж | Щ'"):
        TermEncoder(tokenizer).forms("house", Glossary({"house": ["Ж", "Щ"]}))


def test_a_million_terms_are_found_by_their_words():
    terms = {f"term {number}": str(number) for number in range(100_000)}
    glossary = Glossary(terms)
    sentence = " ".join(f"term {number}" for number in range(0, 100_000, 9973))
    assert [int(targets[0]) for *_, targets in glossary.find(sentence)] == [
        *range(0, 100_000, 9973)
    ]
    long = " ".join(np.resize(["a", "b"], 200))
    assert found(Glossary({long: "x"}), f"b {long} a") == [(long, "x")]


HOUSE = "<term> house<trans> Haus</term>"


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The house.", f"The{HOUSE}."),
        ("house  tree", f"{HOUSE}<term>  tree<trans> Baum</term>"),
        (" (house)", " (<term>house<trans> Haus</term>)"),
        ("the new  york", "the<term> new  york<trans> Neu York</term>"),
        ("我在北京工作", "我在<term>北京<trans> Peking</term>工作"),
        ("no term", "no term"),
        ("", ""),
        # The model may see the tags of a text, but not tags in tags.
        ("house <term>", "house <term>"),
        ("a</term> house", "a</term> house"),
    ],
)
def test_the_target_of_a_term_is_after_it_in_tags(sentence, expected):
    terms = {"house": ["Haus", "Hütte"], "tree": "Baum", "new york": "Neu  York", "北京": "Peking"}
    assert Glossary(terms).inline(sentence) == expected


@pytest.mark.parametrize(
    ("translation", "expected"),
    [
        ("das Haus", "Haus"),
        ("des Hauses", "Haus"),  # inflected
        ("Hütten und Hauses", "Hütte"),  # the longer one
        ("Hütten, Haus", "Haus"),  # the one that ends with a word
        ("die Hu\u0308tten", "Hütte"),
        ("das Bauhaus, haus", None),
        ("", None),
    ],
)
def test_the_target_of_a_pair_is_the_one_in_its_translation(translation, expected):
    glossary = Glossary({"house": ["Haus", "Hütte"], "tree": "Baum"})
    terms = glossary.find_in_pair("tree house", translation)
    assert terms == ([] if expected is None else [(5, 10, (expected,))])


def test_a_word_has_the_same_tokens_in_tags_as_without():
    lines = ["a house and a Haus", "the (house) is new"]
    tokenizer = SentencePieceTokenizer.train(
        lines, vocabulary_size=48, user_defined_symbols=["<BT>", *TERM_TAGS]
    )
    before, house, after, target = tokenizer.encode(["a", "house", "and", "Haus"])
    term, trans, end = (tokenizer.piece_ids[tag] for tag in TERM_TAGS)
    text = TermTags(tokenizer).put_in("a house and", Glossary({"house": "Haus"}))
    assert tokenizer.encode([text]) == [[*before, term, *house, trans, *target, end, *after]]


def test_terms_that_a_source_cannot_carry_are_one_line():
    lines = ["a house", "the tree"]
    tags = TermTags(
        SentencePieceTokenizer.train(lines, vocabulary_size=24, user_defined_symbols=TERM_TAGS)
    )
    with pytest.raises(UserInputError, match="`target` must have none of the tags <term> <trans>"):
        tags.put_in("a house", Glossary({"house": "tree</term>"}))
    with pytest.raises(UserInputError, match=r"characters of a target .* Received: 'Ж'"):
        tags.put_in("a house", Glossary({"house": "Ж"}))
    two = SentencePieceTokenizer.train(
        lines, vocabulary_size=24, user_defined_symbols=TERM_TAGS[:2]
    )
    with pytest.raises(UserInputError, match="`glossary_tags` needs .* a vocabulary without </ter"):
        TermTags(two)


def test_the_fingerprint_is_of_the_terms():
    terms = {"house": "Haus", "tree": "Baum"}
    same = Glossary(dict(reversed(terms.items())))
    assert Glossary(terms).fingerprint == same.fingerprint
    others = [terms, {"house": "Haus"}, {**terms, "tree": "Tanne"}]
    prints = {Glossary(each).fingerprint for each in others}
    assert len({*prints, Glossary(terms, ignore_case=["house"]).fingerprint}) == 4

"""A translator with a glossary: every translation has its terms, even of a random model."""

import re

import numpy as np
import pytest

from keras_transformer import Translator
from keras_transformer.errors import UserInputError
from keras_transformer.text import Glossary, SentencePieceTokenizer, Shortlist
from keras_transformer.types import TermForm
from tests.decoding.python_terms import contains
from tests.random_translation import build, sentences

LINES = sentences(12)
WORDS = sorted({word for line in LINES for word in line.split()})
TARGETS = {word: [WORDS[-i - 1], f"{WORDS[i - 3]} {WORDS[i]}"] for i, word in enumerate(WORDS)}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)


@pytest.fixture(scope="module")
def translator(tokenizer):
    model = build(tokenizer)

    def translator(**options):
        return Translator(model, tokenizer, **{"beam_size": 3, "extra_length": 12, **options})

    return translator


def is_met(glossary, source, text):
    """Whether a text has a target for each term of its source, as words that do not overlap."""
    forms = [
        TermForm(term, 1, False, tuple(target.split()))
        for term, (*_, targets) in enumerate(glossary.find(source))
        for target in targets
    ]
    words = re.findall(r"\w+", text)
    return contains(words, forms, dict.fromkeys(words, 0))


@pytest.mark.parametrize(
    "options",
    [
        {"renormalize": True, "max_repeats": 2, "no_repeat_ngram": 2, "min_length": 30},
        pytest.param({}, marks=pytest.mark.slow),
        pytest.param({"beam_size": 1}, marks=pytest.mark.slow),
        pytest.param({"ending": "transformers"}, marks=pytest.mark.slow),
        pytest.param({"ending": "marian", "length_penalty": "power"}, marks=pytest.mark.slow),
    ],
)
def test_every_translation_has_its_terms(translator, options):
    glossary = Glossary(TARGETS)
    own = translator(**options)
    for source, found in zip(
        LINES, own.translate_nbest(LINES, own.beam_size, glossary=glossary), strict=True
    ):
        assert found
        for text, score in found:
            assert np.isfinite(score)
            assert is_met(glossary, source, text), (source, text)


@pytest.mark.slow
def test_sentences_without_terms_are_as_without_a_glossary(translator):
    one = {LINES[0].split()[0]: WORDS[-1]}
    glossary = Glossary(one)
    own = translator(batch_size=5)
    plain, found = own.translate(LINES), own.translate(LINES, glossary=one)
    has_terms = [bool(glossary.find(line)) for line in LINES]
    assert any(has_terms)
    assert not all(has_terms)
    for i, has_term in enumerate(has_terms):
        assert has_term or found[i] == plain[i]
        assert own.translate(LINES[i], glossary=one) == found[i]
    assert own.translate(["", LINES[0]], glossary=one) == ["", found[0]]


@pytest.mark.slow
def test_a_shortlist_has_the_tokens_of_terms(translator, tokenizer):
    nothing = Shortlist([0], [], [4, 5, 6, 7], tokenizer)
    glossary = Glossary({word: targets[0] for word, targets in TARGETS.items()})
    for source, text in zip(
        LINES, translator(shortlist=nothing).translate(LINES, glossary=glossary), strict=True
    ):
        assert is_met(glossary, source, text)


@pytest.mark.slow
def test_a_prefix_may_meet_a_term(translator):
    own, glossary = translator(), Glossary({WORDS[0]: WORDS[1]})
    (text,) = own.translate([WORDS[0]], prefixes=[f"{WORDS[1]} {WORDS[2]}"], glossary=glossary)
    assert text.startswith(f"{WORDS[1]} {WORDS[2]}")
    (text,) = own.translate([WORDS[0]], prefixes=[WORDS[2]], glossary=glossary)
    assert text.startswith(WORDS[2])
    assert is_met(glossary, WORDS[0], text)


def test_parts_of_a_split_sentence_have_their_terms(translator):
    own = translator(long_sentences="split", max_source_length=7)
    glossary = Glossary({WORDS[0]: WORDS[1]})
    with pytest.warns(UserWarning, match="it is split"):
        (text,) = own.translate([f"{WORDS[0]}. " * 4], glossary=glossary)
    assert len(re.findall(rf"(?<!\w){WORDS[1]}(?!\w)", text)) >= 4


def test_terms_that_cannot_be_met_are_one_line(translator):
    own = translator(extra_length=1)
    with pytest.raises(UserInputError, match="terms of sentence 2 must fit .*: raise `extra_len"):
        own.translate(["", WORDS[0]], glossary={WORDS[0]: " ".join(WORDS * 3)})
    with pytest.raises(UserInputError, match="`glossary` must be a `Glossary` or a dict"):
        own.translate([WORDS[0]], glossary=["terms"])


@pytest.mark.parametrize(
    "options",
    [
        {},
        pytest.param({"beam_size": 1}, marks=pytest.mark.slow),
        pytest.param({"ending": "marian"}, marks=pytest.mark.slow),
    ],
)
def test_variables_are_there_once_and_unchanged(translator, options):
    variables = ["{a b}", "%s", "https://x.org/?q=ä#b", "<0xFF>", "{{ ▁ }}"]
    pattern = "|".join(map(re.escape, variables))
    lines = [
        f"{variables[0]} tree {variables[1]}",
        f"({variables[2]}), house: '{variables[3]}'!",
        " ".join(variables),
        "old tree",
    ]
    own = translator(**options)
    found = own.translate_nbest(lines, own.beam_size, keep=pattern)
    for line, n_best in zip(lines, found, strict=True):
        for text, _ in n_best:
            assert sorted(re.findall(pattern, text)) == sorted(re.findall(pattern, line)), text
    assert own.translate(lines[3:], keep=pattern) == own.translate(lines[3:])


@pytest.mark.slow
def test_variables_and_terms_together(translator):
    glossary = {WORDS[0]: WORDS[1]}
    (text,) = translator().translate([f"{WORDS[0]} %s"], glossary=glossary, keep="%s")
    assert text.count("%s") == 1
    assert is_met(Glossary(glossary), WORDS[0], text.replace("%s", " "))


def test_more_variables_than_words_are_one_line(translator):
    line = " ".join([WORDS[0], *(f"%{number}" for number in range(300))])
    own = translator(max_source_length=2000)
    with pytest.raises(UserInputError, match="more words to stand for variables.* 300 variables"):
        own.translate([line], keep=r"%\d+")

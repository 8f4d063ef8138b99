"""A translator with a glossary: every translation has its terms, even of a random model."""

import dataclasses
import re

import numpy as np
import pytest
from keras import ops

from keras_transformer import Translator
from keras_transformer.decoding import RequiredTerms
from keras_transformer.errors import UserInputError
from keras_transformer.text import Glossary, SentencePieceTokenizer, Shortlist
from keras_transformer.text.term_forms import array_of_terms
from keras_transformer.types import COUNT, TERM_TAGS, TermForm
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


def test_a_batch_has_no_more_hypotheses_than_without_terms(translator, monkeypatch):
    own = translator(batch_size=4)
    batches = []

    def call(function, source_ids, *inputs, **options):
        terms = RequiredTerms(inputs[-1], np.zeros(64, "int32"), 2)
        has_terms = np.any(inputs[-1][:, :, COUNT] > 0, axis=1)
        numbers = ops.convert_to_numpy(terms.num_hypotheses(own.beam_size))
        batches.append((has_terms.sum(), numbers.max()))
        return np.zeros((len(source_ids), 1, 2), "int32"), np.zeros((len(source_ids), 1))

    monkeypatch.setattr(own._generator, "_call", call)
    own.translate(LINES, glossary=TARGETS)
    assert sum(rows for rows, _ in batches) == len(LINES)
    assert all(rows == 1 or rows * number <= 4 * own.beam_size for rows, number in batches)
    assert any(rows > 1 for rows, _ in batches)


@pytest.mark.slow
def test_a_shortlist_has_the_tokens_of_terms(translator, tokenizer):
    nothing = Shortlist([0], [], [4, 5, 6, 7], tokenizer)
    glossary = Glossary({word: targets[0] for word, targets in TARGETS.items()})
    for source, text in zip(
        LINES, translator(shortlist=nothing).translate(LINES, glossary=glossary), strict=True
    ):
        assert is_met(glossary, source, text)


def test_the_tokens_of_terms_are_candidates_for_any_padding_id(translator, tokenizer):
    """In Marian's vocabularies, the padding id is the last one."""
    own = translator(shortlist=Shortlist([0], [], [4, 5, 6, 7], tokenizer))._generator
    own._tokens = dataclasses.replace(own._tokens, pad=tokenizer.vocabulary_size - 1)
    forms = array_of_terms([[TermForm(0, 1, False, [20, 31])], [TermForm(0, 1, False, [25])]])
    found = own._candidates(np.array([[9, 2], [10, 2]], "int32"), terms=forms)
    assert {20, 31} <= set(found[0].tolist())
    assert 25 in found[1]


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


def test_one_sentence_may_have_variables(translator):
    own = translator(beam_size=1)
    assert own.translate("%s", keep="auto") == own.translate(["%s"], keep="auto")[0]


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


@pytest.fixture(scope="module")
def tagged():
    """A translator whose vocabulary has the tags of terms."""
    tokenizer = SentencePieceTokenizer.train(
        sentences(200), vocabulary_size=67, user_defined_symbols=TERM_TAGS
    )
    model = build(tokenizer)

    def tagged(**options):
        return Translator(model, tokenizer, **{"beam_size": 3, "extra_length": 12, **options})

    return tagged


class SeenRows:
    """A generator that notes its rows and whether they have terms, and translates nothing."""

    def __init__(self, translator):
        self.rows, self.terms = None, None
        translator._generator = self

    def search(self, rows, prefix_rows, n, progress=False, terms=None):
        self.rows, self.terms = rows, terms
        return iter(())

    def sample(self, rows, prefix_rows, n, **options):
        return self.search(rows, prefix_rows, n)


def test_with_tags_the_sources_carry_the_terms(tagged):
    glossary = Glossary({word: [WORDS[i - 1], WORDS[i - 2]] for i, word in enumerate(WORDS[:4])})
    soft = {"glossary": glossary, "glossary_tags": True}
    own = tagged()
    seen = SeenRows(own)
    sources = [glossary.inline(line) for line in LINES]
    assert sources != LINES
    for translate in (
        lambda: own.translate(LINES, **soft),
        lambda: own.translate(LINES, [WORDS[0]] * len(LINES), **soft),
        lambda: own.translate_nbest(LINES, 2, **soft),
        lambda: own.sample(LINES, **soft),
    ):
        seen.rows = None
        translate()
        assert seen.rows == own.tokenizer.encode(sources)
        assert seen.terms is None


def test_long_sources_with_terms_are_split(tagged):
    own = tagged(long_sentences="split", max_source_length=12)
    seen = SeenRows(own)
    soft = {"glossary": {WORDS[0]: WORDS[1]}, "glossary_tags": True}
    with pytest.warns(UserWarning, match="it is split"):
        own.translate([f"{WORDS[0]}. " * 9], **soft)
    tag = own.tokenizer.piece_ids["<term>"]
    assert sum(row.count(tag) for row in seen.rows) == 9
    assert len(seen.rows) > 3


def test_text_in_markup_carries_terms_if_it_stays_short_enough(tagged, monkeypatch):
    own = tagged(max_source_length=12)
    rows = []

    def search(these, *_, **options):
        rows.extend(these)
        return ((i, [[4]], [0.0]) for i in range(len(these)))

    monkeypatch.setattr(own._generator, "search", search)
    monkeypatch.setattr(own, "align", lambda *sides, progress: [])
    word, soft = WORDS[0], {"glossary": {WORDS[0]: WORDS[1]}, "glossary_tags": True}
    own.translate(f"<p>{word}</p><p>{word} {word} {word}</p>", markup="html", **soft)
    tagged_word = Glossary(soft["glossary"]).inline(word)
    assert rows == own.tokenizer.encode([tagged_word, f"{word} {word} {word}"])


@pytest.mark.slow
def test_with_tags_outputs_are_those_of_the_tagged_sources(tagged):
    terms = {word: WORDS[i - 1] for i, word in enumerate(WORDS[:4])}
    own, soft = tagged(), {"glossary": terms, "glossary_tags": True}
    sources = [Glossary(terms).inline(line) for line in LINES]
    found = own.translate(LINES, **soft)
    assert found == own.translate(sources) != own.translate(LINES)
    assert own.translate(LINES[0], **soft) == found[0]
    assert own.sample(LINES, 2, seed=1, **soft) == own.sample(sources, 2, seed=1)
    (text,) = own.translate([f"{WORDS[0]} %s"], keep="%s", **soft)
    assert text.count("%s") == 1


def test_a_target_does_not_have_the_word_of_a_variable(tagged):
    own = tagged()
    line = f"{WORDS[1]} %s"
    kept = own._stand_ins.replace(line, [(len(WORDS[1]) + 1, len(line))])
    seen = SeenRows(own)
    for target, source in (
        (WORDS[2], Glossary({WORDS[1]: WORDS[2]}).inline(kept.text)),
        (kept.stand_ins[0].word, kept.text),
    ):
        own.translate([line], glossary={WORDS[1]: target}, glossary_tags=True, keep="%s")
        assert seen.rows == own.tokenizer.encode([source])


def test_what_tags_need_is_one_line(translator, tagged, tokenizer):
    soft = {"glossary": {WORDS[0]: WORDS[1]}, "glossary_tags": True}
    with pytest.raises(UserInputError, match="`glossary_tags` needs a source vocabulary with the "):
        translator().translate(LINES, **soft)
    own = tagged()
    SeenRows(own)
    with pytest.raises(UserInputError, match="`glossary_tags` needs `glossary`"):
        own.translate(LINES, glossary_tags=True)
    with pytest.raises(UserInputError, match="`glossary` in `sample` needs `glossary_tags=True`"):
        own.sample(LINES, glossary={WORDS[0]: WORDS[1]})
    own.shortlist = Shortlist([0], [], [4, 5, 6, 7], own.tokenizer)
    own.translate(LINES, **soft)
    own.shortlist = Shortlist([0], [], [4, 5, 6, 7], tokenizer, own.tokenizer)
    with pytest.raises(UserInputError, match="with a shortlist needs a vocabulary shared by"):
        own.translate(LINES, **soft)

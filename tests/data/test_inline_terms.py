"""Targets of terms in source sentences: those of the pair, in a share of the pairs."""

import itertools

import pytest

from keras_transformer.data import InlineTerms, PairFilters, SentencePairs, prepare_corpus
from keras_transformer.text import Glossary, SentencePieceTokenizer
from keras_transformer.types import TERM_TAGS

SOURCES = [f"the {'house' if i % 2 else 'tree'} number {i}" for i in range(2000)]
TARGETS = [f"das {'Haus' if i % 4 == 1 else 'Heim'} Nummer {i}" for i in range(2000)]
TEXT = SentencePairs(SOURCES, TARGETS, name="houses")
TERMS = Glossary({"house": ["Haus", "Heim"]})


def test_a_share_of_the_pairs_with_terms_has_the_target_of_the_pair():
    found = list(InlineTerms(TEXT, TERMS, share=0.1, seed=1))
    assert [target for _, target in found] == TARGETS
    changed = [pair for pair, source in zip(found, SOURCES, strict=True) if pair[0] != source]
    assert len(changed) == pytest.approx(100, abs=40)
    for source, target in changed:
        number = int(source.split()[-1])
        word = target.split()[1]
        assert source == f"the<term> house<trans> {word}</term> number {number}"


def test_a_source_carries_some_of_its_terms():
    sources, targets = ["one two three"] * 500, ["eins zwei drei"] * 500
    terms = Glossary({"one": "eins", "two": "zwei", "three": "drei"})
    text = InlineTerms(SentencePairs(sources, targets), terms, share=0.9, seed=1)
    found = {source for source, _ in text}
    assert len(found) == 8  # each subset
    assert terms.inline(sources[0]) in found


def test_terms_follow_from_the_text_the_glossary_the_share_and_the_seed():
    text = InlineTerms(TEXT, TERMS, share=0.1, seed=1)
    assert list(text) == list(text) == list(InlineTerms(TEXT, TERMS, share=0.1, seed=1))
    others = [
        InlineTerms(TEXT, TERMS, share=0.2, seed=1),
        InlineTerms(TEXT, TERMS, share=0.1, seed=2),
        InlineTerms(TEXT, Glossary({"house": "Haus"}), share=0.1, seed=1),
    ]
    for other in others:
        assert list(other) != list(text)
    assert len({each.fingerprint() for each in (TEXT, text, *others)}) == 5
    assert (text.name, text.num_pairs, text.unit) == ("houses", 2000, "line")
    assert list(itertools.islice(text.line_numbers(), 3)) == [1, 2, 3]


def test_a_wrong_share_is_refused():
    with pytest.raises(ValueError, match=r"`share` must be a number in \[0, 1\)"):
        InlineTerms(TEXT, TERMS, share=1, seed=1)


def test_a_prepared_corpus_has_the_tags_in_its_sources(tmp_path):
    tokenizer = SentencePieceTokenizer.train(
        SOURCES + TARGETS, vocabulary_size=64, user_defined_symbols=TERM_TAGS
    )
    text = InlineTerms(TEXT, TERMS, share=0.5, seed=1)
    filters = PairFilters(copies=True, duplicates=True, max_ratio=4.0)
    corpus = prepare_corpus(text, tokenizer, tmp_path, filters=filters)
    assert len(corpus) == 2000
    tags = {tokenizer.piece_ids[tag] for tag in TERM_TAGS}
    assert tags < set(corpus.source_ids.tolist())
    assert tags.isdisjoint(corpus.target_ids.tolist())

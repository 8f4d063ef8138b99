"""Noise in sentence pairs: the same on both sides, in a share of the pairs, the same each time."""

import itertools
import random

import pytest

from keras_transformer.data import InlineNoise, PairFilters, SentencePairs, prepare_corpus
from keras_transformer.data.inline_noise import draw_noise
from keras_transformer.text import SentencePieceTokenizer

SOURCES = [f"the house number {i}" for i in range(2000)]
TARGETS = [f"das Haus Nummer {i}" for i in range(2000)]
TEXT = SentencePairs(SOURCES, TARGETS, name="houses")


def test_a_share_of_the_pairs_has_the_same_noise_at_the_start_or_the_end_of_both_sides():
    found = list(InlineNoise(TEXT, share=0.1, seed=1))
    starts = ends = 0
    for source, target, (noisy_source, noisy_target) in zip(SOURCES, TARGETS, found, strict=True):
        before, after = noisy_source.split(source)
        assert noisy_target == f"{before}{target}{after}"
        assert not (before and after)
        starts, ends = starts + bool(before), ends + bool(after)
    assert (starts, ends) == (pytest.approx(100, abs=40), pytest.approx(100, abs=40))


def test_noise_follows_from_the_text_the_share_and_the_seed():
    text = InlineNoise(TEXT, share=0.1, seed=1)
    assert list(text) == list(text) == list(InlineNoise(TEXT, share=0.1, seed=1))
    others = [InlineNoise(TEXT, share=0.2, seed=1), InlineNoise(TEXT, share=0.1, seed=2)]
    for other in others:
        assert list(other) != list(text)
    assert len({each.fingerprint() for each in (TEXT, text, *others)}) == 4
    assert (text.name, text.num_pairs) == ("houses", 2000)
    assert list(itertools.islice(text.line_numbers(), 3)) == [1, 2, 3]


def test_noise_has_all_kinds_and_is_one_short_word_group():
    generator = random.Random(1)
    noise = [draw_noise(generator, "A small house.") for _ in range(1000)]
    for part in ("https://", "www.", "@", "house", "+"):
        assert any(part in each for each in noise)
    assert any(ord(each[0]) >= 0x1F300 for each in noise)
    assert any(each.isdigit() and len(each) > 9 for each in noise)
    assert any(len(each) > 9 and len(set(each)) == 1 for each in noise)
    assert max(map(len, noise)) < 60
    assert all(each == each.strip() != "" for each in noise)


def test_empty_sides_stay_empty_and_a_wrong_share_is_refused():
    pairs = [("", "x"), (" ", "x"), ("x", "")] * 10
    text = SentencePairs(*zip(*pairs, strict=True))
    assert list(InlineNoise(text, share=0.99, seed=1)) == pairs
    with pytest.raises(ValueError, match=r"`share` must be a number in \[0, 1\)"):
        InlineNoise(TEXT, share=1, seed=1)


def test_a_prepared_corpus_has_the_noise_in_bytes(tmp_path):
    tokenizer = SentencePieceTokenizer.train(
        SOURCES + TARGETS, vocabulary_size=320, byte_fallback=True
    )
    text = InlineNoise(TEXT, share=0.5, seed=1)
    filters = PairFilters(copies=True, duplicates=True, max_ratio=4.0)
    corpus = prepare_corpus(text, tokenizer, tmp_path, filters=filters)
    assert len(corpus) == 2000
    emoji = tokenizer.encode(["🎉"])[0][1:]  # after a space
    assert len(emoji) == 4
    plain = prepare_corpus(TEXT, tokenizer, tmp_path)
    for ids, other in (
        (corpus.source_ids, plain.source_ids),
        (corpus.target_ids, plain.target_ids),
    ):
        assert emoji[0] in ids
        assert emoji[0] not in other

"""Filters: every pair is judged once, by the first rule that it breaks."""

import numpy as np
import pytest

from keras_transformer.data import PairFilters, corpus_preparation
from keras_transformer.data.pair_filters import SeenHashes, pair_hashes
from keras_transformer.errors import UserInputError
from tests.data.test_corpus_preparation import prepared as prepare_pairs

# Pair, and what is wrong with it. Every letter is a token.
TEXT = [
    ("abc", "xyz", None),
    ("", "x", "empty"),
    ("a", "  ", "empty"),
    ("abc", " abc", "copy"),
    ("abc ", "xyz", "duplicate"),
    ("abcdefg", "xyz", "too_long"),
    ("ab", "uvwxyz", "too_long"),
    ("ab", "vwxyz", "length_ratio"),
    ("abcde", "xy", "length_ratio"),
    ("abcd", "xy", None),
    ("abc", "xyw", None),
    # Breaks several rules: the first one counts.
    ("", "", "empty"),
    ("abcdefg", "abcdefg", "copy"),
    ("abcdefg", "xyz", "duplicate"),
    ("abcdefg", "x", "too_long"),
    ("abc", "xyw", "duplicate"),
]
ALL = PairFilters(max_tokens=5, max_ratio=2, duplicates=True, copies=True)


def prepared(directory, filters, text=TEXT):
    sources, targets, _ = zip(*text, strict=True)
    return prepare_pairs(directory, sources, targets, filters=filters, keep_text=True)


def lines(corpus):
    return corpus.line_numbers.tolist()


@pytest.mark.parametrize("chunk", [1, 3, 100])
def test_all_filters_together(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(corpus_preparation, "CHUNK_PAIRS", chunk)
    corpus = prepared(tmp_path, ALL)
    assert lines(corpus) == [number for number, pair in enumerate(TEXT, 1) if pair[2] is None]
    assert corpus.source_text(range(3)) == ["abc", "abcd", "abc"]
    assert corpus.dropped == {
        "empty": 3,
        "too_long": 3,
        "length_ratio": 2,
        "duplicate": 3,
        "copy": 2,
    }


@pytest.mark.parametrize(
    ("filters", "gone"),
    [
        (PairFilters(), [2, 3, 12]),
        (PairFilters(copies=True), [2, 3, 4, 12, 13]),
        (PairFilters(duplicates=True), [2, 3, 5, 12, 14, 16]),
        (PairFilters(max_tokens=6), [2, 3, 6, 12, 13, 14, 15]),
        (PairFilters(max_ratio=2.5), [2, 3, 7, 12, 15]),
    ],
)
def test_each_filter_alone(tmp_path, filters, gone):
    assert lines(prepared(tmp_path, filters)) == sorted(set(range(1, 17)) - set(gone))


def test_limits_themselves_are_kept(tmp_path):
    text = [("abcd", "xy", None)]
    assert len(prepared(tmp_path, PairFilters(max_tokens=4, max_ratio=2), text)) == 1


def test_what_was_dropped_is_said_each_time(tmp_path, capsys):
    for _ in range(2):
        corpus = prepared(tmp_path, ALL)
        assert corpus.report() == (
            "3 of 16 pairs kept, 10 source and 8 target tokens; dropped: 3 with an "
            "empty side, 3 too long, 2 of uneven lengths, 3 repeated, 2 copied from the source"
        )
        assert capsys.readouterr().err == f"pairs: {corpus.report()}\n"


def test_filters_that_dropped_nothing_say_so(tmp_path, capsys):
    corpus = prepared(tmp_path, ALL, TEXT[:1])
    assert corpus.report() == "all 1 pairs kept, 3 source and 3 target tokens"
    assert capsys.readouterr().err == f"pairs: {corpus.report()}\n"


def test_everything_dropped_is_an_error_that_says_by_what(tmp_path):
    text = [("abcdefg", "xyz", None), ("a", "a", None)]
    with pytest.raises(UserInputError, match="is left: 1 too long, 1 copied from the source"):
        prepared(tmp_path, ALL, text)


def test_duplicates_among_many():
    generator = np.random.default_rng(0)
    numbers = generator.integers(0, 3_000, 5_000).tolist()
    seen, kept = SeenHashes(), []
    for start in range(0, len(numbers), 70):
        chunk = [str(number) for number in numbers[start : start + 70]]
        repeated = seen.add(pair_hashes(chunk, chunk))
        kept += [int(number) for number, again in zip(chunk, repeated, strict=True) if not again]
    assert kept == list(dict.fromkeys(numbers))


def test_the_same_words_in_other_places_are_no_duplicates(tmp_path):
    text = [("ab", "c", None), ("a", "bc", None), ("c", "ab", None)]
    assert len(prepared(tmp_path, PairFilters(duplicates=True), text)) == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_tokens": 0}, "`max_tokens` must be a positive integer. Received: max_tokens=0"),
        ({"max_tokens": True}, "`max_tokens` must be a positive integer"),
        ({"max_ratio": 0.5}, "`max_ratio` must be a number >= 1. Received: max_ratio=0.5"),
        ({"max_ratio": float("nan")}, "`max_ratio` must be a number >= 1"),
        ({"max_ratio": True}, "`max_ratio` must be a number >= 1"),
        ({"max_ratio": float("inf")}, "`max_ratio` must be a number >= 1"),
        ({"duplicates": "no"}, "`duplicates` must be True or False"),
        ({"copies": 1}, "`copies` must be True or False"),
    ],
)
def test_rules_of_the_filters(arguments, message):
    with pytest.raises(ValueError, match=message):
        PairFilters(**arguments)


def test_numbers_of_numpy_become_pythons_own():
    filters = PairFilters(max_tokens=np.int64(100), max_ratio=np.float32(3))
    assert repr(filters).startswith("PairFilters(max_tokens=100, max_ratio=3.0,")

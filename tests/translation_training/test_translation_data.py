import collections

import pytest

from keras_transformer.data import PairFilters, ParallelText, SentencePairs, corpus_preparation
from keras_transformer.errors import UserInputError
from keras_transformer.toolkit.cli.program import CommandParser
from keras_transformer.training.translation.data import hold_out, text_of
from keras_transformer.translation_training import TranslationData, add_text_arguments
from tests.translation_training.number_text import write_pairs


class Numbers(ParallelText):
    """Pairs made as they are read: `n` to `n`."""

    def __init__(self, stop):
        super().__init__("numbers")
        self.stop = stop

    def __iter__(self):
        return ((str(number), str(number)) for number in range(self.stop))

    def fingerprint(self):
        return f"numbers below {self.stop}"


def test_held_out_pairs_are_no_longer_trained_on():
    text = Numbers(500)
    rest, held_out = hold_out(text, 30, seed=1)
    assert len(list(held_out)) == 30
    assert sorted([*rest, *held_out]) == sorted(text)
    assert list(rest) == list(rest)  # it can be read again and again


def test_the_seed_decides_which_pairs_are_held_out():
    first, same, other = (list(hold_out(Numbers(500), 30, seed)[1]) for seed in (1, 1, 2))
    assert first == same
    assert first != other


def test_every_pair_is_held_out_equally_often():
    counts = collections.Counter()
    for seed in range(400):
        counts.update(source for source, _ in hold_out(Numbers(40), 4, seed)[1])
    # 40 of 400 expected, standard deviation 6
    assert len(counts) == 40
    assert 16 <= min(counts.values()) <= max(counts.values()) <= 64


def test_no_more_than_a_tenth_is_held_out():
    assert len(list(hold_out(Numbers(40), 1000, seed=1)[1])) == 4


def test_only_pairs_that_fit_are_held_out():
    rest, held_out = hold_out(Numbers(500), 30, 1, fits=lambda source, _: len(source) < 3)
    assert 0 < len(list(held_out)) < 30
    assert all(len(source) < 3 for source, _ in held_out)
    assert len(list(rest)) + len(list(held_out)) == 500
    with pytest.raises(UserInputError, match="No pair of numbers passes the filters"):
        hold_out(Numbers(500), 30, 1, fits=lambda *_: False)


def test_pairs_without_text_are_not_held_out():
    sources = [f"{number}" if number % 2 else " " for number in range(40)]
    _, held_out = hold_out(SentencePairs(sources, sources), 1000, seed=1)
    assert [source.strip() != "" for source, _ in held_out] == [True, True]


def test_the_rest_keeps_the_numbers_of_its_lines(monkeypatch):
    monkeypatch.setattr(corpus_preparation, "CHUNK_PAIRS", 7)
    words = [str(number) for number in range(1, 41)]
    rest, _ = hold_out(SentencePairs(words, words), most=4, seed=1)
    found = list(corpus_preparation.chunks(rest, PairFilters()))
    assert sum(len(chunk.sources) for chunk in found) == 36
    for chunk in found:
        assert list(map(str, chunk.numbers)) == chunk.sources


def test_the_rest_is_another_text_to_the_cache():
    text = Numbers(500)
    fingerprints = {hold_out(text, 30, seed)[0].fingerprint() for seed in (1, 2)}
    assert len(fingerprints | {text.fingerprint()}) == 3


def test_too_little_text_wants_a_dev_text():
    with pytest.raises(UserInputError, match="numbers has 9 pairs with text, too few"):
        hold_out(Numbers(9), 1, seed=1)


def test_a_given_dev_text_is_kept():
    data = TranslationData([Numbers(50)], dev=Numbers(5))
    assert data.with_dev(3, seed=1) is data
    without = TranslationData([Numbers(50), Numbers(7)], weights=[1, 0.5]).with_dev(3, seed=1)
    assert len(list(without.dev)) == 3
    assert [len(list(text)) for text in without.train] == [47, 7]
    assert without.weights == [1, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"train": []}, "Training needs at least one text"),
        ({"train": [Numbers(5)], "weights": [1, 2]}, "2 weights, 1 texts"),
    ],
)
def test_wrong_data_is_refused(arguments, message):
    with pytest.raises(UserInputError, match=message):
        TranslationData(**arguments)


def texts(*arguments):
    parser = CommandParser(prog="train")
    add_text_arguments(parser)
    return text_of(parser.parse_args(arguments))


def test_files_of_every_part_with_weights(tmp_path):
    train = write_pairs(tmp_path, "train", length=2)
    more = write_pairs(tmp_path, "more", length=1)
    data = texts(
        *("--source", train[0], more[0], "--target", train[1], more[1]),
        *("--dev-source", more[0], "--dev-target", more[1]),
        *("--mix", *more, "2", "--mix", *train, "0.25"),
    )
    assert data.weights == [1.0, 2.0, 0.25]
    assert [len(list(text)) for text in data.train] == [30, 5, 25]
    assert next(iter(data.dev)) == ("one", "eins")
    assert data.test is None


@pytest.mark.parametrize("weight", ["0", "-1", "inf", "nan", "much"])
def test_a_weight_is_a_number_above_0(tmp_path, weight):
    train = write_pairs(tmp_path, "train")
    with pytest.raises(UserInputError, match=f"must be a number above 0. Received: {weight}"):
        texts("--source", train[0], "--target", train[1], "--mix", *train, weight)


def test_one_side_of_a_part_is_not_enough(tmp_path):
    train = write_pairs(tmp_path, "train")
    with pytest.raises(UserInputError, match="--test-target needs --test-source as well"):
        texts("--source", train[0], "--target", train[1], "--test-target", train[1])

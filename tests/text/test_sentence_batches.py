import numpy as np
import pytest

from keras_transformer.argument_checks import check_equal_numbers, checked_strings
from keras_transformer.errors import UserInputError
from keras_transformer.text import sentence_encoding
from keras_transformer.text.sentence_encoding import batches_by_length


def test_every_sentence_is_in_one_batch_the_longest_first():
    lengths = np.random.default_rng(0).integers(1, 99, 50).tolist()
    batches = list(batches_by_length(range(1, 50), lengths, batch_size=8))
    assert sorted(i for batch in batches for i in batch) == list(range(1, 50))
    in_order = [lengths[i] for batch in batches for i in batch]
    assert in_order == sorted(in_order, reverse=True)
    assert [len(batch) for batch in batches] == [8] * 6 + [1]
    assert list(batches_by_length([], [], batch_size=8)) == []


def test_batches_of_long_sentences_are_smaller(monkeypatch):
    monkeypatch.setattr(sentence_encoding, "FULL_BATCH_LENGTH", 8)
    lengths = [100, 30, 16, 16, 9, 8, 8, 8, 8, 1]
    sizes = [len(batch) for batch in batches_by_length(range(10), lengths, batch_size=4)]
    assert sizes == [1, 1, 2, 3, 3]  # 4 * 8 // longest, at least 1


def test_the_bar_counts_sentences(capsys):
    list(batches_by_length(range(3), [1, 2, 3], batch_size=2, progress=True))
    assert "3/3" in capsys.readouterr().err


def test_sentences_are_strings():
    given = ["ab", "a\ud800 \udc00b", "\ud83d\ude00 ä"]  # half a surrogate pair, and a pair
    expected = ["ab", "a\ufffd \ufffdb", "\U0001f600 ä"]
    assert checked_strings("sentences", iter(given)) == expected
    with pytest.raises(ValueError, match="`sources` must be a list of strings. Received: sources="):
        checked_strings("sources", "ab")
    with pytest.raises(ValueError, match=r"Received: sources\[1\]=None"):
        checked_strings("sources", ["ab", None])


def test_different_numbers_are_named():
    check_equal_numbers("sources", [1], "targets", [2])
    with pytest.raises(UserInputError, match="Received: 1 sources, 2 targets"):
        check_equal_numbers("sources", [1], "targets", [1, 2])

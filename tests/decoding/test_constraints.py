"""Constraints by themselves; tests/decoding/test_all_modes.py has them in every search."""

import itertools

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import ForcedPrefix, MinimumLength, NoRepeatNgrams
from keras_transformer.decoding.constraints import LimitedRepeats, OfLogits
from keras_transformer.types import SpecialTokens
from tests.decoding.numpy_constraints import allowed_after

TOKENS = SpecialTokens(pad=5, bos=4, eos=0, unk=1)
VOCABULARY = 6


def allowed(constraint, ids, index):
    """The tokens that may be next: for each sentence and hypothesis, a list."""
    batch_size, beams, _ = np.shape(ids)
    mask = ops.convert_to_numpy(constraint(ops.convert_to_tensor(ids), index))
    mask = np.broadcast_to(mask, (batch_size, beams, VOCABULARY))
    return [[np.flatnonzero(row).tolist() for row in rows] for rows in mask]


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_ngrams_equal_a_search_by_hand(n):
    ids = np.random.default_rng(n).integers(1, 4, (4, 3, 9)).astype("int32")
    constraint = NoRepeatNgrams(n, VOCABULARY)
    blocked = 0
    for index in range(9):
        actual = allowed(constraint, ids, ops.convert_to_tensor(index))
        for row in range(4):
            for beam in range(3):
                so_far = ids[row, beam, :index].tolist()
                seen = [so_far[i : i + n] for i in range(index - n + 1)]
                expected = [
                    token
                    for token in range(VOCABULARY)
                    if index < n or [*so_far[index - n + 1 :], token] not in seen
                ]
                assert actual[row][beam] == expected
                blocked += VOCABULARY - len(expected)
    assert blocked > 0


@pytest.mark.parametrize("max_repeats", [1, 2, 3])
def test_the_guard_against_loops_equals_a_search_by_hand(max_repeats):
    """For n-grams of every length, and sources that repeat none, a token, and two tokens."""
    sources = np.array(
        [[1, 2, 3, 0, 5, 5, 5, 5], [3, 3, 3, 3, 0, 5, 5, 5], [2, 3, 2, 3, 2, 3, 2, 0]]
    )
    generator = np.random.default_rng(max_repeats)
    loops = [np.tile(generator.integers(1, 4, n), 40)[:40] for n in range(1, 11)]
    ids = np.tile(np.array(loops, "int32"), (3, 1, 1))
    ids[:, :, generator.integers(0, 40, 3)] = 4  # so that loops begin anywhere
    guard = LimitedRepeats.of(max_repeats, sources, TOKENS.pad, VOCABULARY)
    of_some = OfLogits(guard, np.array([0, 2, 3])), guard.of_logits(np.array([0, 2, 3]))
    blocked = 0
    for index in range(0, 40, 3):
        place = ops.convert_to_tensor(index)
        actual = allowed(guard, ids, place)
        expected, found = (ops.convert_to_numpy(each(ids, place)) for each in of_some)
        np.testing.assert_array_equal(found, expected)
        for row in range(3):
            source = [token for token in sources[row].tolist() if token != TOKENS.pad]
            for beam in range(10):
                expected = allowed_after(
                    tuple(ids[row, beam, :index].tolist()),
                    outputs=range(VOCABULARY), eos=0, limit=99, repeats=max_repeats, source=source,
                )  # fmt: skip
                assert actual[row][beam] == sorted(expected)
                forbidden = VOCABULARY - len(expected)
                assert forbidden <= guard.most_forbidden
                blocked += forbidden
    assert blocked > 50


def test_of_long_loops_at_most_one_token_is_forbidden():
    """So that a search looks for one more extension of each hypothesis only."""
    guard = LimitedRepeats.of(8, np.array([[0]]), TOKENS.pad, VOCABULARY)
    assert guard.most_forbidden == 1
    ids = np.array([[np.resize(pair, 80) for pair in itertools.product((1, 2, 3), repeat=4)]])
    for index in range(80):
        tokens, are_forbidden = map(ops.convert_to_numpy, guard.forbidden(ids, index))
        for row, is_there in zip(tokens[0], are_forbidden[0], strict=True):
            assert len(set(row[is_there])) <= 1


def test_the_ids_come_from_the_record():
    ids = np.zeros((2, 1, 3), "int32")
    minimum = MinimumLength(2, TOKENS, VOCABULARY)
    assert allowed(minimum, ids, 1) == [[[1, 2, 3, 4, 5]]] * 2
    assert allowed(minimum, ids, 2) == [[[0, 1, 2, 3, 4, 5]]] * 2
    minima = MinimumLength(np.array([1, 2]), TOKENS, VOCABULARY)
    assert allowed(minima, ids, 1) == [[[0, 1, 2, 3, 4, 5]], [[1, 2, 3, 4, 5]]]
    prefix = ForcedPrefix(np.array([[3, 0], [2, 5]]), TOKENS, VOCABULARY)
    assert ops.convert_to_numpy(prefix.lengths).tolist() == [2, 1]
    assert allowed(prefix, ids, 0) == [[[3]], [[2]]]
    assert allowed(prefix, ids, 1) == [[[0]], [[0, 1, 2, 3, 4, 5]]]
    assert allowed(prefix, ids, 2) == [[[0, 1, 2, 3, 4, 5]]] * 2


def test_prefixes_without_a_token_force_nothing():
    prefix = ForcedPrefix(np.zeros((2, 0), "int32"), TOKENS, VOCABULARY)
    ids = np.zeros((2, 1, 3), "int32")
    assert allowed(prefix, ids, 0) == [[[0, 1, 2, 3, 4, 5]]] * 2


def test_refuses_an_ngram_of_no_tokens():
    with pytest.raises(ValueError, match="`n` must be a positive integer. Received: n=0"):
        NoRepeatNgrams(0, VOCABULARY)

"""Constraints by themselves; tests/decoding/test_all_modes.py has them in every search."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import ForcedPrefix, MinimumLength, NoRepeatNgrams
from keras_transformer.types import SpecialTokens

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

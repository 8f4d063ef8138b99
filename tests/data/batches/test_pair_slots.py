"""Which pairs an epoch of weighted corpora reads, and how often."""

import math

import numpy as np
import pytest

from keras_transformer.data.batch_cells import PairSlots
from tests.data.corpora import random_lengths


def read(slots, epoch):
    """Pairs of an epoch, slot for slot."""
    return slots.pairs(np.arange(slots.lengths.shape[1]), epoch)


def times_read(slots, pairs, epochs):
    return sum(np.bincount(read(slots, epoch), minlength=pairs) for epoch in epochs)


@pytest.mark.parametrize("weight", [1 / 3, 0.25, 0.07, 0.3, 0.75, 0.99])
@pytest.mark.parametrize("pairs", [1, 7, 100, 1001])
def test_a_fraction_reads_other_pairs_each_epoch_until_all_are_read(weight, pairs):
    slots = PairSlots(random_lengths(pairs), [pairs], [weight], seed=1)
    per_epoch = math.ceil(pairs * weight - 1e-6)
    epochs = math.ceil(1 / weight)
    for epoch in range(epochs):
        chosen = read(slots, epoch)
        assert len(chosen) == len(np.unique(chosen)) == per_epoch
    assert times_read(slots, pairs, range(epochs)).min() >= 1
    # The pairs are as many epochs: then each has been read as often as the others.
    assert set(times_read(slots, pairs, range(pairs))) == {per_epoch}


def test_a_quarter_and_the_next_quarter_have_nothing_in_common():
    slots = PairSlots(random_lengths(100), [100], [0.25], seed=1)
    assert times_read(slots, 100, range(4)).tolist() == [1] * 100
    assert times_read(slots, 100, range(4, 8)).tolist() == [1] * 100


@pytest.mark.parametrize(("weight", "once_more"), [(1, 0), (2, 0), (1.5, 50), (3.25, 25)])
def test_whole_part_of_a_weight_reads_every_pair(weight, once_more):
    slots = PairSlots(random_lengths(100), [100], [weight], seed=1)
    for epoch in range(3):
        counts = times_read(slots, 100, [epoch])
        assert sorted(counts) == [int(weight)] * (100 - once_more) + [int(weight) + 1] * once_more


def test_each_corpus_has_its_own_weight():
    slots = PairSlots(random_lengths(160), [100, 20, 40], [0.5, 3, 1], seed=1)
    counts = times_read(slots, 160, range(2))
    assert counts.tolist() == [1] * 100 + [6] * 20 + [2] * 40


def test_a_slot_is_as_long_as_the_longest_pair_it_ever_holds():
    lengths = random_lengths(150)
    slots = PairSlots(lengths, [100, 50], [0.3, 1.2], seed=1)
    held = np.array([read(slots, epoch) for epoch in range(100)])  # (epochs, slots)
    np.testing.assert_array_equal(slots.lengths, lengths[:, held].max(axis=1))


def test_pairs_of_a_slot_have_nearly_the_same_lengths():
    sources = np.random.default_rng(0).integers(1, 60, 10_000)
    slots = PairSlots(np.stack([sources, sources]), [10_000], [0.1], seed=1)
    held = np.array([sources[read(slots, epoch)] for epoch in range(10)])
    assert np.ptp(held, axis=0).max() <= 1


def test_pairs_of_a_slot_come_from_the_whole_corpus():
    # All of one length: taken in their order, a slot would hold pairs 0 to 3, the next 4 to 7.
    slots = PairSlots(np.full((2, 1000), 10), [1000], [0.25], seed=1)
    held = np.array([read(slots, epoch) for epoch in range(4)])
    # Four independent draws are 600 apart on average.
    assert np.ptp(held, axis=0).mean() == pytest.approx(600, abs=50)


def test_seed_decides_who_takes_turns():
    first, again, other = (
        read(PairSlots(random_lengths(1000), [1000], [0.25], seed=seed), 0).tolist()
        for seed in (1, 1, 2)
    )
    assert first == again != other

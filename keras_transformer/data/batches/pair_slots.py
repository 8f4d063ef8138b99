"""The places of an epoch: which pair of weighted corpora stands in which, epoch for epoch."""

import math

import numpy as np

from keras_transformer.data.batches.length_cells import length_order


class PairSlots:
    """Slots of an epoch, each a place for one sentence pair, for corpora read by weights.

    A weight says how often an epoch reads every pair of a corpus. Its whole part gives each pair
    that many slots. Its fraction gives `fraction * pairs` slots more, rounded up: each belongs to
    some neighbors in the order of their lengths, who take turns from epoch to epoch. It is as long
    as the longest of them. So lengths are the same in every epoch, all pairs of a corpus are read
    equally often in the long run, none twice where the weight is below 1, and all of them within
    `ceil(1 / weight)` epochs.

    The lengths, int arrays `(pairs,)`, are of all corpora, one after the other. The seed decides
    which pairs of the same lengths are neighbors.

    Example:
        >>> lengths = np.array([5, 5, 5, 5, 9])
        >>> slots = PairSlots(lengths, lengths, [4, 1], [0.5, 2], seed=1)
        >>> slots.source_lengths.tolist()
        [5, 5, 9, 9]
        >>> sorted(np.concatenate([slots.pairs(np.arange(4), epoch) for epoch in (0, 1)]).tolist())
        [0, 1, 2, 3, 4, 4, 4, 4]
    """

    def __init__(self, source_lengths, target_lengths, corpus_sizes, weights, seed):
        self._blocks, self._starts = [], [0]
        lengths = ([], [])
        first_pair = 0
        for number, (pairs, weight) in enumerate(zip(corpus_sizes, weights, strict=True)):
            corpus = slice(first_pair, first_pair + pairs)
            sides = source_lengths[corpus], target_lengths[corpus]
            repeats = math.floor(weight)
            # Rounded first: 0.07 * 100 is a little more than 7.
            turns = math.ceil(round((weight - repeats) * pairs, 6))
            if repeats:
                self._add(_RepeatedPairs(first_pair, pairs), repeats * pairs)
                for side, values in zip(lengths, sides, strict=True):
                    side += [values] * repeats
            if turns:
                # The last number keeps this generator apart from those of the epochs.
                generator = np.random.default_rng([seed, number, 1])
                block = _TakingTurns(first_pair, *sides, turns, generator)
                self._add(block, turns)
                for side, values in zip(lengths, sides, strict=True):
                    side.append(block.longest(values))
            first_pair += pairs
        self.source_lengths, self.target_lengths = map(np.concatenate, lengths)

    def pairs(self, slots, epoch):
        """Pairs that stand in `slots`, an int array of any shape, in an epoch counted from 0."""
        block_numbers = np.searchsorted(self._starts, slots, side="right") - 1
        pairs = np.empty(slots.shape, dtype="int64")
        for number, block in enumerate(self._blocks):
            chosen = block_numbers == number
            places = slots[chosen].astype("int64") - self._starts[number]
            pairs[chosen] = block.pairs(places, epoch)
        return pairs

    def _add(self, block, slots):
        self._blocks.append(block)
        self._starts.append(self._starts[-1] + slots)


class _RepeatedPairs:
    """One slot for each of some pairs, several times over."""

    def __init__(self, first_pair, pairs):
        self._first_pair, self._pairs = first_pair, pairs

    def pairs(self, places, epoch):
        return self._first_pair + places % self._pairs


class _TakingTurns:
    """Fewer slots than pairs.

    Slot `s` of `S` stands in epoch 0 for pair `s * n // S` in the order of the lengths of all `n`;
    every epoch goes `S / n` of a slot's share further, all in integers.
    """

    def __init__(self, first_pair, source_lengths, target_lengths, slots, generator):
        # Pairs of equal lengths in a random order: the corpus itself may have one that matters.
        mixed = generator.permutation(np.arange(len(source_lengths), dtype="int32"))
        order = mixed[length_order(source_lengths[mixed], target_lengths[mixed])]
        self._order, self._slots, self._first_pair = order, slots, first_pair

    def pairs(self, places, epoch):
        pairs = len(self._order)
        turn = epoch * self._slots % pairs
        return self._first_pair + self._order[(places * pairs + turn) // self._slots]

    def longest(self, lengths):
        """The longest that each slot ever holds: int array `(slots,)`."""
        places, pairs = np.arange(self._slots), len(self._order)
        first = places * pairs // self._slots
        stop = (places * pairs + pairs - 1) // self._slots + 1
        # Every second span is one from first to stop; the last stop is the end of the array.
        bounds = np.stack([first, stop], axis=1).ravel()[:-1]
        return np.maximum.reduceat(lengths[self._order], bounds)[::2]

"""Which pairs of weighted corpora each epoch reads."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from keras_transformer.data.batches.batch_cells import length_order


class PairSlots:
    """The slots of an epoch, each with room for one sentence pair, for weighted corpora.

    A weight is how often an epoch reads every pair of a corpus. The integer part of the weight is
    the number of slots for each pair. The fraction adds `fraction * pairs` slots, rounded up. Each
    of these is shared by neighbors in the order of lengths, which take turns from epoch to epoch;
    the slot is as long as the longest of them. So lengths are the same in every epoch, and in the
    long run all pairs of a corpus are read equally often. If the weight is below 1, a pair is read
    at most once per epoch, and all pairs are read within `ceil(1 / weight)` epochs.

    The lengths `(pairs,)` cover all corpora, one after the other. The seed determines which pairs
    of the same lengths are neighbors.

    Example:
        >>> lengths = np.array([5, 5, 5, 5, 9])
        >>> slots = PairSlots(lengths, lengths, [4, 1], [0.5, 2], seed=1)
        >>> slots.source_lengths.tolist()
        [5, 5, 9, 9]
        >>> sorted(np.concatenate([slots.pairs(np.arange(4), epoch) for epoch in (0, 1)]).tolist())
        [0, 1, 2, 3, 4, 4, 4, 4]
    """

    def __init__(
        self,
        source_lengths: NDArray[np.integer],
        target_lengths: NDArray[np.integer],
        corpus_sizes: Sequence[int],
        weights: Sequence[float],
        seed: int,
    ) -> None:
        self._blocks: list[_RepeatedPairs | _TakingTurns] = []
        self._starts = [0]
        lengths: tuple[list[NDArray[np.integer]], list[NDArray[np.integer]]] = ([], [])
        first_pair = 0
        for number, (pairs, weight) in enumerate(zip(corpus_sizes, weights, strict=True)):
            corpus = slice(first_pair, first_pair + pairs)
            sides = source_lengths[corpus], target_lengths[corpus]
            repeats = math.floor(weight)
            # Rounded first: 0.07 * 100 is a little more than 7.
            turns = math.ceil(round((weight - repeats) * pairs, 6))
            turns = max(turns, 0 if repeats else 1)
            if repeats:
                self._add(_RepeatedPairs(first_pair, pairs), repeats * pairs)
                for side, values in zip(lengths, sides, strict=True):
                    side += [values] * repeats
            if turns:
                # The last number distinguishes this generator from the generators of the epochs.
                generator = np.random.default_rng([seed, number, 1])
                block = _TakingTurns(first_pair, *sides, turns, generator)
                self._add(block, turns)
                for side, values in zip(lengths, sides, strict=True):
                    side.append(block.longest(values))
            first_pair += pairs
        self.source_lengths, self.target_lengths = map(np.concatenate, lengths)

    def pairs(self, slots: NDArray[np.integer], epoch: int) -> NDArray[np.int64]:
        """Return the pairs in the given slots of an epoch, an array of the same shape."""
        block_numbers = np.searchsorted(self._starts, slots, side="right") - 1
        pairs = np.empty(slots.shape, dtype="int64")
        for number, block in enumerate(self._blocks):
            chosen = block_numbers == number
            places = slots[chosen].astype("int64") - self._starts[number]
            pairs[chosen] = block.pairs(places, epoch)
        return pairs

    def _add(self, block: "_RepeatedPairs | _TakingTurns", slots: int) -> None:
        self._blocks.append(block)
        self._starts.append(self._starts[-1] + slots)


class _RepeatedPairs:
    """One or more slots for each pair."""

    def __init__(self, first_pair: int, pairs: int) -> None:
        self._first_pair, self._pairs = first_pair, pairs

    def pairs(self, places: NDArray[np.integer], epoch: int) -> NDArray[np.integer]:
        return self._first_pair + places % self._pairs


class _TakingTurns:
    """Fewer slots than pairs.

    In epoch 0, slot `s` of `S` holds pair `s * n // S` of all `n` pairs, ordered by length. Each
    epoch advances by `S / n` of a slot's share, in integer arithmetic.
    """

    def __init__(
        self,
        first_pair: int,
        source_lengths: NDArray[np.integer],
        target_lengths: NDArray[np.integer],
        slots: int,
        generator: np.random.Generator,
    ) -> None:
        # Pairs of equal lengths are put into random order, as the corpus may be ordered.
        mixed = generator.permutation(np.arange(len(source_lengths), dtype="int32"))
        order = mixed[length_order(source_lengths[mixed], target_lengths[mixed])]
        self._order, self._slots, self._first_pair = order, slots, first_pair

    def pairs(self, places: NDArray[np.integer], epoch: int) -> NDArray[np.integer]:
        pairs = len(self._order)
        turn = epoch * self._slots % pairs
        return self._first_pair + self._order[(places * pairs + turn) // self._slots]

    def longest(self, lengths: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the greatest length that each slot ever holds, `(slots,)`."""
        places, pairs = np.arange(self._slots), len(self._order)
        first = places * pairs // self._slots
        stop = (places * pairs + pairs - 1) // self._slots + 1
        # Every second span is from first to stop; the last stop is the end of the array.
        bounds = np.stack([first, stop], axis=1).ravel()[:-1]
        return np.maximum.reduceat(lengths[self._order], bounds)[::2]

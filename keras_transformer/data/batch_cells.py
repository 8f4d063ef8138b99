"""Divide pairs, sorted by length, into cells of a few batches each.

`lengths` arrays have the shape `(2, pairs)`: source lengths and target lengths.
"""

import bisect
import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# Start, stop and number of pairs in a full batch.
Cell: TypeAlias = tuple[int, int, int]


def length_order(lengths: NDArray[np.integer]) -> NDArray[np.integer]:
    """Return an order in which neighbors have similar lengths on both sides.

    Pairs are sorted by the longer side, which limits the size of a batch. Within each run of equal
    longer sides, pairs are ordered from short source to short target; every other run is reversed
    to avoid jumps in length.
    """
    longest, difference = lengths.max(axis=0), lengths[0] - lengths[1]
    if longest.max() < 2**15:
        # NumPy's 16-bit radix sort is six times as fast.
        longest, difference = longest.astype("int16"), difference.astype("int16")
    order = np.lexsort((np.where(longest % 2, difference, -difference), longest))
    # int32 halves the memory; corpora contain tens of millions of pairs.
    return order.astype("int32") if len(order) < 2**31 else order


def cut_cells(
    lengths: NDArray[np.integer], batch_tokens: int, *, least_batches: int, most_padding: float
) -> list[Cell]:
    """Divide ordered pairs into cells. All cells except the last contain only full batches.

    The function works on runs of equal lengths; millions of pairs form only a few thousand runs.
    """
    pairs = lengths.shape[1]
    starts = np.flatnonzero(np.diff(lengths[0], prepend=-1) | np.diff(lengths[1], prepend=-1))
    run_stops = [*starts[1:].tolist(), pairs]
    runs = list(zip(run_stops, *lengths[:, starts].tolist(), strict=True))
    cells: list[Cell] = []
    start = 0
    while start < pairs:
        stop, size, tokens, longest_source, longest_target = start, 0, 0, 0, 0
        for run_stop, source, target in runs[bisect.bisect_right(run_stops, start) :]:
            longest_source = max(longest_source, source)
            longest_target = max(longest_target, target)
            tokens += (run_stop - stop) * (source + target)
            slots = (run_stop - start) * (longest_source + longest_target)
            pads_much = tokens < (1 - most_padding) * slots
            if size and pads_much and stop - start >= least_batches * size:
                break
            stop, size = run_stop, batch_tokens // max(longest_source, longest_target)
        if stop < pairs:
            stop -= (stop - start) % size
        cells.append((start, stop, size))
        start = stop
    return cells


def cut_batches(cells: list[Cell]) -> NDArray[np.integer]:
    """Split each cell evenly into batches; return their start and stop indices, `(batches, 2)`."""
    batches = []
    for start, stop, size in cells:
        number = -(-(stop - start) // size)
        cuts = start + (stop - start) * np.arange(number + 1) // number
        batches.append(np.stack([cuts[:-1], cuts[1:]], axis=1))
    return np.concatenate(batches)


# Rows, source length, target length.
PaddedShape: TypeAlias = tuple[int, int, int]

# Lengths from 32 are padded to multiples of 8, which suit tensor cores. On news text, this adds 0.3
# percentage points of padding; rounding from length 16 would add 2 percentage points.
_MULTIPLE = 8
_LEAST_ROUNDED_LENGTH = 32
# Full batches have a multiple of 8 rows if rounding removes at most one row in 16.
_LEAST_ROUNDED_ROWS = 128
# Pairs that do not fill a batch move to the next cell if this adds less padding than this share of
# a batch; otherwise, an additional batch is cheaper.
_MOST_CARRIED_PADDING = 0.25


def cut_shape_cells(
    lengths: NDArray[np.integer], batch_tokens: int, shapes: int, least_batches: int
) -> tuple[list[Cell], list[PaddedShape]]:
    """Divide pairs, sorted by `length_order`, into at most `shapes` cells with minimal padding.

    Every cell except the last should contain `least_batches` full batches. Returns the cells and
    the padded shape of each cell, which fits all its batches.
    """
    longest = lengths.max(axis=1)
    levels = _rounded(lengths.max(axis=0), longest.max())
    starts = np.flatnonzero(np.diff(levels, prepend=-1))
    bounds = np.append(starts, len(levels))
    # widths[side, i, j]: maximum length in levels `i` to `j`; 0 if `j < i`.
    of_levels = np.maximum.reduceat(lengths, starts, axis=1)
    spans_of_levels = np.triu(np.broadcast_to(of_levels[:, None], (2, len(starts), len(starts))))
    longest_of_spans = np.maximum.accumulate(spans_of_levels, axis=2)
    widths = _rounded(longest_of_spans, longest[:, None, None])
    rows, width = _rows(batch_tokens, widths.max(axis=0)), widths.sum(axis=0)
    # costs[i, j]: padded tokens in a cell of levels `i` to `j`; inf if not allowed.
    pairs = bounds[None, 1:] - bounds[:-1, None]
    too_small = pairs < least_batches * rows
    too_small[:, -1] = False  # the longest pairs may be too few to fill batches
    costs = np.where(too_small | (pairs <= 0), np.inf, pairs * width.astype("float64"))
    spans = [
        (int(bounds[i]), int(bounds[j + 1]), int(rows[i, j]), int(width[i, j]))
        for i, j in _cheapest(costs, shapes)
    ]
    cells = _carry(spans)
    cell_shapes: list[PaddedShape] = []
    for start, stop, size in cells:
        source_length, target_length = _rounded(lengths[:, start:stop].max(axis=1), longest)
        cell_shapes.append((size, int(source_length), int(target_length)))
    return cells, cell_shapes


def _rounded(lengths: NDArray[np.integer], most: NDArray[np.integer]) -> NDArray[np.integer]:
    """Round long lengths up to a multiple, but not beyond the longest length of the side."""
    multiples = -(-lengths // _MULTIPLE) * _MULTIPLE
    return np.minimum(np.where(lengths >= _LEAST_ROUNDED_LENGTH, multiples, lengths), most)


def _rows(batch_tokens: int, length: NDArray[np.integer]) -> NDArray[np.integer]:
    rows = batch_tokens // np.maximum(length, 1)
    return np.where(rows >= _LEAST_ROUNDED_ROWS, rows // _MULTIPLE * _MULTIPLE, rows)


def _cheapest(costs: NDArray[np.float64], most_cells: int) -> list[tuple[int, int]]:
    """Find at most `most_cells` spans `(i, j)` that cover all levels at the lowest cost."""
    levels = len(costs)
    # total[j]: minimum cost of the first j levels; inf if impossible.
    total = np.append(0.0, np.full(levels, np.inf))
    first_levels = []
    for _ in range(min(most_cells, levels)):
        # with_cell[i, j]: cost of the first i levels plus one cell with levels i to j.
        with_cell = total[:-1, None] + costs
        first = with_cell.argmin(axis=0)
        cheaper = with_cell[first, np.arange(levels)] < total[1:]
        first_levels.append(np.where(cheaper, first, -1))
        total = np.append(0.0, np.minimum(with_cell.min(axis=0), total[1:]))
    spans: list[tuple[int, int]] = []
    stop = levels
    for first in reversed(first_levels):
        if stop and first[stop - 1] >= 0:
            spans.append((int(first[stop - 1]), stop - 1))
            stop = spans[-1][0]
    return spans[::-1]


def _carry(spans: list[tuple[int, int, int, int]]) -> list[Cell]:
    """Convert spans `(start, stop, rows, width)` to cells.

    Leftover pairs move to the next cell if this is cheap; otherwise, all batches shrink slightly.
    """
    cells: list[Cell] = []
    start = spans[0][0]
    for (_, stop, rows, width), following in zip(spans, [*spans[1:], None], strict=True):
        rest = (stop - start) % rows
        if following and rest * (following[3] - width) < _MOST_CARRIED_PADDING * rows * width:
            stop -= rest
        if start == stop:
            continue
        batches = -(-(stop - start) // rows)
        cells.append((start, stop, -(-(stop - start) // batches)))
        start = stop
    return cells


class PairSlots:
    """The slots of an epoch for weighted corpora; each slot has space for one sentence pair.

    The weight of a corpus is the number of times that each epoch reads every pair. The integer part
    of the weight is the number of slots for each pair. The fraction adds `fraction * pairs` slots,
    rounded up. Each additional slot is shared by pairs of similar length, which take turns from
    epoch to epoch; the slot is as long as the longest of these pairs. Lengths are therefore the
    same in every epoch, and over many epochs, all pairs of a corpus are read equally often. If the
    weight is below 1, no pair repeats in an epoch, and `ceil(1 / weight)` epochs read all pairs.

    The lengths of all corpora are concatenated. The seed determines which pairs of equal length
    share a slot.

    Example:
        >>> slots = PairSlots(np.array([[5, 5, 5, 5, 9]] * 2), [4, 1], [0.5, 2], seed=1)
        >>> slots.lengths.tolist()
        [[5, 5, 9, 9], [5, 5, 9, 9]]
        >>> sorted(np.concatenate([slots.pairs(np.arange(4), epoch) for epoch in (0, 1)]).tolist())
        [0, 1, 2, 3, 4, 4, 4, 4]
    """

    def __init__(
        self,
        lengths: NDArray[np.integer],
        corpus_sizes: Sequence[int],
        weights: Sequence[float],
        seed: int,
    ) -> None:
        self._blocks: list[_RepeatedPairs | _TakingTurns] = []
        self._starts = [0]
        parts = []
        first_pair = 0
        for number, (pairs, weight) in enumerate(zip(corpus_sizes, weights, strict=True)):
            corpus = lengths[:, first_pair : first_pair + pairs]
            repeats = math.floor(weight)
            # Round first, because 0.07 * 100 is slightly more than 7.
            turns = math.ceil(round((weight - repeats) * pairs, 6))
            turns = max(turns, 0 if repeats else 1)
            if repeats:
                self._add(_RepeatedPairs(first_pair, pairs), repeats * pairs)
                parts.append(np.tile(corpus, repeats))
            if turns:
                # The last number distinguishes this generator from the per-epoch generators.
                generator = np.random.default_rng([seed, number, 1])
                block = _TakingTurns(first_pair, corpus, turns, generator)
                self._add(block, turns)
                parts.append(block.longest(corpus))
            first_pair += pairs
        self.lengths = np.concatenate(parts, axis=1)

    def pairs(self, slots: NDArray[np.integer], epoch: int) -> NDArray[np.int64]:
        """Return the pairs in the given slots of an epoch as an array of the same shape."""
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
    """A block with one or more slots for each pair."""

    def __init__(self, first_pair: int, pairs: int) -> None:
        self._first_pair, self._pairs = first_pair, pairs

    def pairs(self, places: NDArray[np.integer], epoch: int) -> NDArray[np.integer]:
        return self._first_pair + places % self._pairs


class _TakingTurns:
    """A block with fewer slots than pairs; the pairs take turns.

    In epoch 0, slot `s` of `S` contains pair `s * n // S` of all `n` pairs, ordered by length. Each
    epoch advances by `S / n` of a slot's share, using integer arithmetic.
    """

    def __init__(
        self,
        first_pair: int,
        lengths: NDArray[np.integer],
        slots: int,
        generator: np.random.Generator,
    ) -> None:
        # Pairs of equal length are shuffled, because the corpus may be ordered.
        mixed = generator.permutation(np.arange(lengths.shape[1], dtype="int32"))
        order = mixed[length_order(np.take(lengths, mixed, axis=1))]
        self._order, self._slots, self._first_pair = order, slots, first_pair

    def pairs(self, places: NDArray[np.integer], epoch: int) -> NDArray[np.integer]:
        pairs = len(self._order)
        turn = epoch * self._slots % pairs
        return self._first_pair + self._order[(places * pairs + turn) // self._slots]

    def longest(self, lengths: NDArray[np.integer]) -> NDArray[np.integer]:
        """Return the maximum lengths of each slot over all epochs, `(2, slots)`."""
        places, pairs = np.arange(self._slots), len(self._order)
        first = places * pairs // self._slots
        stop = (places * pairs + pairs - 1) // self._slots + 1
        # Every second span runs from first to stop; the last stop is the end of the array.
        bounds = np.stack([first, stop], axis=1).ravel()[:-1]
        ordered = np.take(lengths, self._order, axis=1)
        return np.maximum.reduceat(ordered, bounds, axis=1)[:, ::2]

"""Cutting pairs in the order of their lengths into cells, each of which gives some batches."""

import bisect
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

# Start, stop, and the number of pairs in a full batch.
Cell: TypeAlias = tuple[int, int, int]


def length_order(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer]
) -> NDArray[np.integer]:
    """Return an order in which neighbors have similar lengths on both sides.

    Pairs are sorted by the longer side, which bounds a batch; equal ones from short source to
    short target, and in the opposite direction in the next run, so that lengths never jump.
    """
    longest = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    if longest.max() < 2**15:
        # NumPy's radix sort of 16 bits is six times as fast.
        longest, difference = longest.astype("int16"), difference.astype("int16")
    order = np.lexsort((np.where(longest % 2, difference, -difference), longest))
    # Half of the memory of 64 bits: corpora have tens of millions of pairs.
    return order.astype("int32") if len(order) < 2**31 else order


def cut_cells(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    batch_tokens: int,
    *,
    least_batches: int,
    most_padding: float,
) -> list[Cell]:
    """Cut ordered pairs into cells, all but the last of which hold only full batches.

    It works on runs of equal lengths, of which even millions of pairs have only some thousands.
    """
    pairs = len(source_lengths)
    change = np.diff(source_lengths, prepend=-1) | np.diff(target_lengths, prepend=-1)
    starts = np.flatnonzero(change)
    run_lengths = (source_lengths[starts].tolist(), target_lengths[starts].tolist())
    run_stops = [*starts[1:].tolist(), pairs]
    cells: list[Cell] = []
    start = 0
    while start < pairs:
        stop, size = _grow_cell(
            start, run_stops, run_lengths, batch_tokens, least_batches, most_padding
        )
        if stop < pairs:
            stop -= (stop - start) % size
        cells.append((start, stop, size))
        start = stop
    return cells


def _grow_cell(
    start: int,
    run_stops: list[int],
    run_lengths: tuple[list[int], list[int]],
    batch_tokens: int,
    least_batches: int,
    most_padding: float,
) -> tuple[int, int]:
    """The stop of a cell of runs from pair `start` on that pad little, and its batch size."""
    source_lengths, target_lengths = run_lengths
    stop, size, tokens, longest_source, longest_target = start, 0, 0, 0, 0
    for run in range(bisect.bisect_right(run_stops, start), len(run_stops)):
        source, target = source_lengths[run], target_lengths[run]
        longest_source, longest_target = max(longest_source, source), max(longest_target, target)
        tokens += (run_stops[run] - stop) * (source + target)
        slots = (run_stops[run] - start) * (longest_source + longest_target)
        pads_much = tokens < (1 - most_padding) * slots
        if size and pads_much and stop - start >= least_batches * size:
            break
        stop, size = run_stops[run], batch_tokens // max(longest_source, longest_target)
    return stop, size


def cut_batches(cells: list[Cell]) -> NDArray[np.integer]:
    """Split every cell evenly into batches: an array `(batches, 2)` of their starts and stops."""
    batches = []
    for start, stop, size in cells:
        number = -(-(stop - start) // size)
        cuts = start + (stop - start) * np.arange(number + 1) // number
        batches.append(np.stack([cuts[:-1], cuts[1:]], axis=1))
    return np.concatenate(batches)

"""Neighbors in the order of lengths, cut into cells of which each gives some batches."""

import bisect

import numpy as np


def length_order(source_lengths, target_lengths):
    """Order in which neighbors have nearly the same lengths on both sides.

    Sorted by the longer side, which bounds a batch; among equals from short source to short
    target, and back in the next run, so that no length ever jumps.
    """
    longest = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    if longest.max() < 2**15:
        # NumPy sorts 16 bits by radix: six times as fast.
        longest, difference = longest.astype("int16"), difference.astype("int16")
    order = np.lexsort((np.where(longest % 2, difference, -difference), longest))
    # Half of the memory of 64 bits: corpora have tens of millions of pairs.
    return order.astype("int32") if len(order) < 2**31 else order


def cut_cells(source_lengths, target_lengths, batch_tokens, **limits):
    """Cut ordered pairs into cells `(start, stop, size)`, `size` pairs a full batch.

    All cells but the last hold full batches only. Works on runs of equal lengths, of which even a
    corpus of millions of pairs has only some thousands.
    """
    pairs = len(source_lengths)
    change = np.diff(source_lengths, prepend=-1) | np.diff(target_lengths, prepend=-1)
    starts = np.flatnonzero(change)
    run_lengths = (source_lengths[starts].tolist(), target_lengths[starts].tolist())
    run_stops = [*starts[1:].tolist(), pairs]
    cells, start = [], 0
    while start < pairs:
        stop, size = _grow_cell(start, run_stops, run_lengths, batch_tokens, **limits)
        if stop < pairs:
            stop -= (stop - start) % size
        cells.append((start, stop, size))
        start = stop
    return cells


def _grow_cell(start, run_stops, run_lengths, batch_tokens, least_batches, most_padding):
    """Add runs from pair `start` on while they pad little: the stop and the size of a batch."""
    source_lengths, target_lengths = run_lengths
    stop, size, tokens, longest_source, longest_target = start, None, 0, 0, 0
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


def cut_batches(cells):
    """Split every cell into batches of nearly the same number of pairs: int array `(batches, 2)`.

    Every row is the start and the stop of a batch.
    """
    batches = []
    for start, stop, size in cells:
        number = -(-(stop - start) // size)
        cuts = start + (stop - start) * np.arange(number + 1) // number
        batches.append(np.stack([cuts[:-1], cuts[1:]], axis=1))
    return np.concatenate(batches)

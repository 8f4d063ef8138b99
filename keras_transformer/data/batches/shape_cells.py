"""Neighbors in the order of lengths, cut into cells of which each has one padded shape.

A compiler of fixed shapes, such as XLA, compiles a step once for each shape that it meets.
"""

import numpy as np

# Longer sides are padded to multiples of 8, which tensor cores like. From 32 on that costs 0.3
# points of padding on lengths as those of news; from 16 on it would cost 2.
_MULTIPLE = 8
_LEAST_ROUNDED_LENGTH = 32
# Rows are a multiple of 8 too, where that leaves out one row in 16 at most.
_LEAST_ROUNDED_ROWS = 128
# Pairs beyond the last full batch of a cell go to the next one where that pads less than this share
# of a batch: with more, a batch more is cheaper.
_MOST_CARRIED_PADDING = 0.25


def cut_shape_cells(source_lengths, target_lengths, batch_tokens, shapes, least_batches):
    """Cut pairs in the order of `length_order` into at most `shapes` cells that together pad least.

    Every cell but the last should hold `least_batches` full batches. Returns cells, a list of
    `(start, stop, size)`, `size` pairs a full batch, and the cells' shapes, a list of
    `(rows, source_length, target_length)`: no batch of a cell is larger.
    """
    sides = source_lengths, target_lengths
    longest = [int(side.max()) for side in sides]
    levels = _rounded(np.maximum(*sides), max(longest))
    starts = np.flatnonzero(np.diff(levels, prepend=-1))
    bounds = np.append(starts, len(levels))
    widths = [
        _rounded(_longest_of_spans(np.maximum.reduceat(side, starts)), most)
        for side, most in zip(sides, longest, strict=True)
    ]
    rows = _rows(batch_tokens, np.maximum(*widths))
    width = sum(widths)
    costs = _span_costs(bounds, rows, width, least_batches)
    spans = [
        (bounds[i], bounds[j + 1], rows[i, j], width[i, j]) for i, j in _cheapest(costs, shapes)
    ]
    cells = _carry([tuple(map(int, span)) for span in spans])
    return cells, [
        (
            size,
            *(int(_rounded(s[start:stop].max(), m)) for s, m in zip(sides, longest, strict=True)),
        )
        for start, stop, size in cells
    ]


def _rounded(lengths, most):
    """Lengths padded to a multiple where they are long, but never beyond the longest of all."""
    multiples = -(-lengths // _MULTIPLE) * _MULTIPLE
    return np.minimum(np.where(lengths >= _LEAST_ROUNDED_LENGTH, multiples, lengths), most)


def _rows(batch_tokens, length):
    rows = batch_tokens // np.maximum(length, 1)
    return np.where(rows >= _LEAST_ROUNDED_ROWS, rows // _MULTIPLE * _MULTIPLE, rows)


def _longest_of_spans(lengths):
    """The longest of levels `i` to `j`: int array `(i, j)`, 0 where `j < i`."""
    levels = len(lengths)
    spans = np.triu(np.broadcast_to(lengths, (levels, levels)))
    return np.maximum.accumulate(spans, axis=1)


def _span_costs(bounds, rows, width, least_batches):
    """Padded tokens of a cell of levels `i` to `j`: float array `(i, j)`, infinite for no cell."""
    pairs = bounds[None, 1:] - bounds[:-1, None]
    too_small = pairs < least_batches * rows
    # The longest pairs may be few.
    too_small[:, -1] = False
    return np.where(too_small | (pairs <= 0), np.inf, pairs * width.astype("float64"))


def _cheapest(costs, most_cells):
    """Spans of levels `(i, j)`, at most `most_cells`, that cover all of them at the least cost."""
    levels = len(costs)
    # What the first levels cost in so many cells: none without a level, and none without a cell.
    total = np.append(0.0, np.full(levels, np.inf))
    first_levels = []
    for _ in range(min(most_cells, levels)):
        # One cell more, of levels i to j, behind the first i levels.
        with_cell = total[:-1, None] + costs
        first = with_cell.argmin(axis=0)
        cheaper = with_cell[first, np.arange(levels)] < total[1:]
        first_levels.append(np.where(cheaper, first, -1))
        total = np.append(0.0, np.minimum(with_cell.min(axis=0), total[1:]))
    spans, stop = [], levels
    for first in reversed(first_levels):
        if stop and first[stop - 1] >= 0:
            spans.append((int(first[stop - 1]), stop - 1))
            stop = spans[-1][0]
    return spans[::-1]


def _carry(spans):
    """Cells `(start, stop, size)` of spans `(start, stop, rows, width)`.

    Pairs beyond full batches move up into the next cell; else all batches become a little smaller.
    """
    cells, start = [], spans[0][0]
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

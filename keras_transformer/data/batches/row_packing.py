"""Packing pairs into rows of one shape, several one after the other."""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Positions of a row where sentences are shorter: more attend to more that a mask hides, fewer fit
# less well.
LEAST_LENGTH = 128
_MULTIPLE = 8  # of lengths, as tensor cores prefer
# Twice the positions must fill up this share of a row that was padding.
_COST_OF_LENGTH = 0.05
# Rows are filled up evenly if there are few more than the tokens need.
_SPARE_ROWS = 0.005
_LEAST_ROOMS = 256


class PackedRows(NamedTuple):
    """Rows of slots, which each hold a pair.

    Args:
        order: the slots, those of the same lengths side by side, `(slots,)`.
        equal_starts: places in `order` where other lengths begin, and its end.
        places: places in `order`, row after row, `(slots,)`.
        row_starts: where in `places` each row begins, and its end, `(rows + 1,)`.
    """

    order: NDArray[np.integer]
    equal_starts: NDArray[np.integer]
    places: NDArray[np.integer]
    row_starts: NDArray[np.integer]


def row_lengths(
    source_lengths: NDArray[np.integer], target_lengths: NDArray[np.integer], batch_tokens: int
) -> tuple[int, int]:
    """The number of source and of target positions of a row.

    The longest sentences fit, and both sides fill up at the same time.
    """
    longest = int(source_lengths.max()), int(target_lengths.max())
    totals = int(source_lengths.sum()), int(target_lengths.sum())
    least = max(*longest, min(LEAST_LENGTH, *totals))
    best, best_value = longest, -math.inf
    start = -(-least // _MULTIPLE) * _MULTIPLE
    for length in range(start, min(2 * least, batch_tokens) + 1, _MULTIPLE):
        source, target = (
            max(-(-length * total // (max(totals) * _MULTIPLE)) * _MULTIPLE, most)
            for total, most in zip(totals, longest, strict=True)
        )
        filled = min(source / totals[0], target / totals[1]) * sum(totals) / (source + target)
        value = filled - _COST_OF_LENGTH * length / least
        if value > best_value:
            best, best_value = (source, target), value
    return best


def pack_rows(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    row_shape: tuple[int, int],
) -> PackedRows:
    """Pack slots into about as few rows as there can be.

    Rows are filled up side by side, from the longest pairs to the shortest: each goes to the row
    with the most room that its two sides leave most alike. It works on counts of pairs of the same
    lengths and of rows that are filled alike, of which even millions of pairs have only thousands.
    It works on integers, so it gives the same rows everywhere.

    Reference: Krell et al., "Efficient Sequence Packing without Cross-contamination", 2021, for
    packing histograms.
    """
    keys = source_lengths.astype("int64") * (int(target_lengths.max()) + 1) + target_lengths
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    equal_starts = np.append(starts, len(order))
    groups = _Groups(row_shape, _fewest_rows(source_lengths, target_lengths, row_shape))
    lengths = np.stack([source_lengths[order[starts]], target_lengths[order[starts]]], axis=1)
    scaled = lengths.astype("int64") * row_shape[::-1]
    for kind in np.argsort(-scaled.sum(axis=1), kind="stable").tolist():
        count = int(equal_starts[kind + 1] - equal_starts[kind])
        groups.add(kind, lengths[kind], count)
    return PackedRows(order, equal_starts, *groups.rows(starts.copy()))


def _fewest_rows(
    source_lengths: NDArray[np.integer],
    target_lengths: NDArray[np.integer],
    row_shape: tuple[int, int],
) -> int:
    sides = zip((source_lengths, target_lengths), row_shape, strict=True)
    rows = max(int(lengths.sum()) / length for lengths, length in sides)
    return int(np.ceil(rows * (1 + _SPARE_ROWS)))


class _Groups:
    """Rows by the room that they have left on both sides."""

    def __init__(self, row_shape: tuple[int, int], rows: int) -> None:
        self._row_shape = np.asarray(row_shape, "int64")
        self._room = np.zeros((2, _LEAST_ROOMS), "int64")
        self._counts = np.zeros(_LEAST_ROOMS, "int64")  # rows with that room
        # Of each room, so many rows that hold the same kinds: nested pairs of what was put before
        # and the kind put last.
        self._rows: list[list[tuple[int, Any]]] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._append(self._row_shape, rows, None)

    def add(self, kind: int, lengths: NDArray[np.integer], count: int) -> None:
        """Put `count` pairs of a kind into rows, and open new rows when none has room."""
        while count:
            number = len(self._rows)
            first, second = self._room[:, :number] - lengths[:, None]
            fits = (first >= 0) & (second >= 0) & (self._counts[:number] > 0)
            if not fits.any():
                in_a_row = int((self._row_shape // lengths).min())
                self._append(self._row_shape, -(-count // in_a_row), None)
                continue
            scaled = first * self._row_shape[1], second * self._row_shape[0]
            score = np.minimum(*scaled) - np.abs(np.subtract(*scaled))
            room = int(np.where(fits, score, np.iinfo("int64").min).argmax())
            left = self._room[:, room] - lengths
            rows, kinds = self._rows[room].pop()
            taken = min(count, rows)
            if taken < rows:
                self._rows[room].append((rows - taken, kinds))
            self._counts[room] -= taken
            count -= taken
            self._append(left, taken, (kinds, kind))

    def rows(
        self, next_places: NDArray[np.integer]
    ) -> tuple[NDArray[np.integer], NDArray[np.integer]]:
        """The places of each row, one after the other, and where the rows start.

        Args:
            next_places: the first place of each kind; it is counted up.
        """
        places, sizes = [], [np.zeros(1, "int64")]
        for count, kinds in (alike for rows in self._rows for alike in rows):
            columns = []
            while kinds is not None:
                kinds, kind = kinds
                columns.append(next_places[kind] + np.arange(count))
                next_places[kind] += count
            if columns:  # no row is left empty
                places.append(np.stack(columns, axis=1).ravel())
                sizes.append(np.full(count, len(columns)))
        return np.concatenate(places), np.cumsum(np.concatenate(sizes))

    def _append(self, room: NDArray[np.integer], count: int, kinds: Any) -> None:
        key = (int(room[0]), int(room[1]))
        if key not in self._numbers:
            if len(self._rows) == len(self._counts):
                self._drop_empty()
            number = self._numbers[key] = len(self._rows)
            self._room[:, number] = room
            self._rows.append([])
        number = self._numbers[key]
        self._counts[number] += count
        self._rows[number].append((count, kinds))

    def _drop_empty(self) -> None:
        """Forget rooms that no row has, and make place for as many others."""
        kept = np.flatnonzero(self._counts)
        self._rows = [self._rows[number] for number in kept]
        free = max(len(kept), _LEAST_ROOMS)
        self._room = np.pad(self._room[:, kept], [(0, 0), (0, free)])
        self._counts = np.pad(self._counts[kept], (0, free))
        rooms = map(tuple, self._room[:, : len(kept)].T.tolist())
        self._numbers = {room: number for number, room in enumerate(rooms)}

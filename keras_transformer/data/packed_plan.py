"""Packing: plan rows of a fixed shape that each contain several sentence pairs."""

import itertools
import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_non_negative_int
from keras_transformer.data.batch_cells import PaddedShape, cut_batches
from keras_transformer.data.batch_plan import BatchPlan
from keras_transformer.errors import refuse

# Minimum row length for short sentences. Longer rows waste attention on masked token pairs. Shorter
# rows are harder to fill.
LEAST_LENGTH = 128
_MULTIPLE = 8  # row lengths are multiples of 8, which suit tensor cores
# Doubling the row length must improve the fill rate by at least this much.
_COST_OF_LENGTH = 0.05
# This share of extra rows lets all rows fill evenly.
_SPARE_ROWS = 0.005
_LEAST_ROOMS = 256


class PackedRows(NamedTuple):
    """Rows of slots; each slot contains one pair.

    Args:
        order: the slots, `(slots,)`; slots with equal lengths are adjacent.
        equal_starts: start of each run of equal lengths in `order`, and the end of `order`.
        places: indices into `order`, row by row, `(slots,)`.
        row_starts: start of each row in `places`, and the end of `places`, `(rows + 1,)`.
    """

    order: NDArray[np.integer]
    equal_starts: NDArray[np.integer]
    places: NDArray[np.integer]
    row_starts: NDArray[np.integer]


def row_lengths(lengths: NDArray[np.integer], batch_tokens: int) -> tuple[int, int]:
    """Return the numbers of source and target positions in a row.

    The longest sentences fit into a row, and both sides fill up at the same rate.
    """
    longest, totals = lengths.max(axis=1).tolist(), lengths.sum(axis=1).tolist()
    least = max(*longest, min(LEAST_LENGTH, *totals))
    best, best_value = (longest[0], longest[1]), -math.inf
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


def pack_rows(lengths: NDArray[np.integer], row_shape: tuple[int, int]) -> PackedRows:
    """Pack slots into nearly the minimum number of rows.

    Rows are filled in parallel, from the longest pairs to the shortest. Each pair goes into a
    row where plenty of space remains, in about equal amounts on both sides. The algorithm groups
    pairs by length and rows by remaining space; even millions of pairs form only a few thousand
    groups. It uses integer arithmetic only, so the result is the same on every platform.

    Reference: Krell et al., "Efficient Sequence Packing without Cross-contamination", 2021
    (histogram-based packing).
    """
    keys = lengths[0].astype("int64") * (int(lengths[1].max()) + 1) + lengths[1]
    order = np.argsort(keys, kind="stable")
    starts = np.flatnonzero(np.diff(keys[order], prepend=-1))
    equal_starts = np.append(starts, len(order))
    fewest = (lengths.sum(axis=1) / row_shape).max()
    groups = _Groups(row_shape, math.ceil(fewest * (1 + _SPARE_ROWS)))
    kinds = lengths[:, order[starts]].T.astype("int64")
    scaled = kinds * row_shape[::-1]
    for kind in np.argsort(-scaled.sum(axis=1), kind="stable").tolist():
        count = int(equal_starts[kind + 1] - equal_starts[kind])
        groups.add(kind, kinds[kind], count)
    return PackedRows(order, equal_starts, *groups.rows(starts.copy()))


class _Groups:
    """Rows grouped by the space left on both sides."""

    def __init__(self, row_shape: tuple[int, int], rows: int) -> None:
        self._row_shape = np.asarray(row_shape, "int64")
        self._room = np.zeros((2, _LEAST_ROOMS), "int64")
        self._counts = np.zeros(_LEAST_ROOMS, "int64")  # number of rows with this much space
        # For each amount of space: `(count, kinds)` of rows with identical contents. `kinds` is a
        # linked list: a nested pair of the earlier kinds and the most recent kind.
        self._rows: list[list[tuple[int, Any]]] = []
        self._numbers: dict[tuple[int, int], int] = {}
        self._append(self._row_shape, rows, None)

    def add(self, kind: int, lengths: NDArray[np.integer], count: int) -> None:
        """Add `count` pairs of one kind to rows, opening new rows if no row has enough space."""
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
        """Return the places of all rows, row by row, and the start of each row.

        Args:
            next_places: the first place of each kind; modified in place.
        """
        places, sizes = [], [np.zeros(1, "int64")]
        for count, kinds in (alike for rows in self._rows for alike in rows):
            columns = []
            while kinds is not None:
                kinds, kind = kinds
                columns.append(next_places[kind] + np.arange(count))
                next_places[kind] += count
            if columns:  # skip empty rows
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
        """Drop groups without rows and allocate space for new groups."""
        kept = np.flatnonzero(self._counts)
        self._rows = [self._rows[number] for number in kept]
        free = max(len(kept), _LEAST_ROOMS)
        self._room = np.pad(self._room[:, kept], [(0, 0), (0, free)])
        self._counts = np.pad(self._counts[kept], (0, free))
        rooms = map(tuple, self._room[:, : len(kept)].T.tolist())
        self._numbers = {room: number for number, room in enumerate(rooms)}


_ROW_MULTIPLE = 8  # full batches have a multiple of 8 rows, to divide evenly among devices


class PackedPlan(BatchPlan):
    """Batches of one padded shape with several concatenated sentence pairs in each row.

    The source and the target of a pair are in the same row, in the same order on both sides. Rows
    are planned once, based on the lengths of the pairs. Each epoch reshuffles pairs of equal length
    among their slots and rows among the batches. As with `BatchPlan`, every epoch has the same
    number of steps and the same padding, and you can access any step directly.

    The arguments are those of `BatchPlan`, except `shapes`. Models read the batches with
    `Transformer.packed`.

    Example:
        >>> plan = PackedPlan([3, 4, 9, 5], [4, 4, 8, 5], batch_tokens=24, seed=1)
        >>> plan.shapes, sorted(plan.batch(0).tolist())
        ([(1, 24, 24)], [0, 1, 2, 3])

    Reference: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer", 2020, section 3.1.2 (packing).
    """

    def batch(self, step: int) -> NDArray[np.integer]:
        epoch, _, spans = self._spans(step)
        order, _ = self._epoch_order(epoch)
        return self._pairs(order[self._packed.places[spans]], epoch)

    def rows(self, step: int) -> NDArray[np.integer]:
        _, sizes, _ = self._spans(step)
        return np.repeat(np.arange(len(sizes)), sizes)

    def room(self, step: int) -> NDArray[np.integer]:
        _, _, spans = self._spans(step)
        return self._lengths[:, self._packed.order[self._packed.places[spans]]].T

    def padded_shape(self, step: int) -> PaddedShape:
        check_non_negative_int("step", step)
        return self._shape

    @property
    def largest_step(self) -> int:
        """Always 0, because all batches need the same amount of memory."""
        return 0

    def _cut(self, lengths: NDArray[np.integer], shapes: int | None) -> None:
        if shapes is not None:
            refuse("shapes", "be None if rows are packed, as all batches have one shape", shapes)
        row_shape = row_lengths(lengths, self.batch_tokens)
        packed = self._packed = pack_rows(lengths, row_shape)
        self._lengths = lengths
        self._order = packed.order
        self._cells = list(itertools.pairwise(packed.equal_starts.tolist()))
        num_rows, most = len(packed.row_starts) - 1, self.batch_tokens // max(row_shape)
        if most >= 2 * _ROW_MULTIPLE:
            most -= most % _ROW_MULTIPLE
        self._batches = cut_batches([(0, num_rows, most)])  # spans of rows
        self._shape = int(np.diff(self._batches).max()), *row_shape
        self._fixed_shapes = np.tile(self._shape, (len(self._batches), 1))

    def _planned_arrays(self) -> list[NDArray[np.integer]]:
        return [*super()._planned_arrays(), self._packed.places, self._packed.row_starts]

    @property
    def _num_shuffled(self) -> int:
        return len(self._packed.row_starts) - 1

    def _spans(self, step: int) -> tuple[int, NDArray[np.integer], NDArray[np.integer]]:
        """Return a step's epoch, the number of pairs per row, and their indices into `places`."""
        epoch, index = self._epoch_of(step)
        _, sequence = self._epoch_order(epoch)
        rows = sequence[slice(*self._batches[index].tolist())]
        starts, stops = self._packed.row_starts[rows], self._packed.row_starts[rows + 1]
        sizes = stops - starts
        firsts = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return epoch, sizes, firsts + np.arange(len(firsts))

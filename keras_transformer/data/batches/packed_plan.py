"""Planning batches of one shape with rows that hold several pairs."""

import itertools

import numpy as np
from numpy.typing import NDArray

from keras_transformer.argument_checks import check_non_negative_int
from keras_transformer.data.batches.batch_cells import PaddedShape
from keras_transformer.data.batches.batch_plan import BatchPlan
from keras_transformer.data.batches.row_packing import pack_rows, row_lengths
from keras_transformer.errors import refuse

_ROW_MULTIPLE = 8  # of full batches, so that they divide over devices


class PackedPlan(BatchPlan):
    """Batches of one padded shape whose rows hold several sentence pairs, one after the other.

    The source and the target of a pair are in the same row, in the same order on both sides. Rows
    are planned once, from the lengths of the pairs. Every epoch redraws which pairs of the same
    lengths go where, and which rows share a batch. As with `BatchPlan`, every epoch has the same
    number of steps and the same padding, and any step can be reached directly.

    The arguments are the same as for `BatchPlan`, without `shapes`. A model reads the batches with
    `Transformer.packed`.

    Example:
        >>> plan = PackedPlan([3, 4, 9, 5], [4, 4, 8, 5], batch_tokens=24, seed=1)
        >>> plan.shapes, sorted(plan.batch(0).tolist())
        ([(1, 24, 24)], [0, 1, 2, 3])

    Reference: Raffel et al., "Exploring the Limits of Transfer Learning with a Unified Text-to-Text
        Transformer", 2020, section 3.1.2, for packing.
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
        return self._lengths[self._packed.order[self._packed.places[spans]]]

    def padded_shape(self, step: int) -> PaddedShape:
        check_non_negative_int("step", step)
        return self._shape

    @property
    def largest_step(self) -> int:
        """0: all batches need the same memory."""
        return 0

    def _cut(
        self, sources: NDArray[np.integer], targets: NDArray[np.integer], shapes: int | None
    ) -> None:
        if shapes is not None:
            refuse("shapes", "be None if rows are packed, as they all have one shape", shapes)
        row_shape = row_lengths(sources, targets, self.batch_tokens)
        packed = self._packed = pack_rows(sources, targets, row_shape)
        self._lengths = np.stack([sources, targets], axis=1)
        self._order = packed.order
        bounds = packed.equal_starts.tolist()
        self._cells = list(itertools.pairwise(bounds))
        num_rows, most = len(packed.row_starts) - 1, self.batch_tokens // max(row_shape)
        if most >= 2 * _ROW_MULTIPLE:
            most -= most % _ROW_MULTIPLE
        steps = -(-num_rows // most)
        cuts = num_rows * np.arange(steps + 1) // steps
        self._batches = np.stack([cuts[:-1], cuts[1:]], axis=1)  # of rows
        largest = int(np.diff(cuts).max())
        self._shape = largest, *row_shape
        self._fixed_shapes = np.tile(self._shape, (steps, 1))

    def _planned_arrays(self) -> list[NDArray[np.integer]]:
        return [*super()._planned_arrays(), self._packed.places, self._packed.row_starts]

    @property
    def _num_shuffled(self) -> int:
        return len(self._packed.row_starts) - 1

    def _spans(self, step: int) -> tuple[int, NDArray[np.integer], NDArray[np.integer]]:
        """The epoch of a step, the number of pairs in each row, and where in `places` they are."""
        epoch, index = self._epoch_of(step)
        _, sequence = self._epoch_order(epoch)
        rows = sequence[slice(*self._batches[index].tolist())]
        starts, stops = self._packed.row_starts[rows], self._packed.row_starts[rows + 1]
        sizes = stops - starts
        firsts = np.repeat(starts - np.cumsum(sizes) + sizes, sizes)
        return epoch, sizes, firsts + np.arange(len(firsts))

"""What stepwise decoding keeps of earlier positions: arrays written once, position by position.

Hypotheses that fork share what was written before, so a search moves nothing here: `ancestor_mask`
says which entries belong to a hypothesis.
"""

from typing import NamedTuple, TypeAlias

from keras import ops

from keras_transformer.types import Shape, Tensor

UNWRITTEN = -1


class FixedHistory(NamedTuple):
    """Room for a number of positions, the third axis of `values`; shapes never change."""

    values: Tensor

    def write(self, new: Tensor, index: Tensor) -> "FixedHistory":
        """The history with `new`, of the shape of `values` without its third axis, at `index`."""
        is_here = ops.equal(ops.arange(ops.shape(self.values)[2]), index)  # (length,)
        rest = (1,) * (len(self.values.shape) - 3)
        is_here = ops.reshape(is_here, (-1, *rest))
        return FixedHistory(ops.where(is_here, ops.expand_dims(new, 2), self.values))

    def written(self, index: Tensor) -> Tensor:
        """The positions that are written, `index` among them: bool (length,)."""
        return ops.less_equal(ops.arange(ops.shape(self.values)[2]), index)

    def recent(self, index: Tensor, size: int) -> tuple["FixedHistory", "FixedHistory"]:
        """What to keep and what to read where a step sees the last `size` positions up to `index`.

        Early on there are unwritten positions among what is read.
        """
        batch, heads, length, *rest = ops.shape(self.values)
        start = ops.maximum(index + 1 - size, 0)
        size = min(size, length) if isinstance(length, int) else ops.minimum(size, length)
        shape = (batch, heads, size, *rest)
        starts = (0, 0, start, *(0 for _ in rest))
        return self, FixedHistory(ops.slice(self.values, starts, shape))


class GrowingHistory(NamedTuple):
    """As many positions as are written; `index` counts nothing here.

    Work and memory follow the output's length, but the third axis grows from step to step: this is
    for TensorFlow's graphs.
    """

    values: Tensor

    def write(self, new: Tensor, index: Tensor) -> "GrowingHistory":
        """As of `FixedHistory`; `index` is the number of positions so far."""
        return GrowingHistory(ops.concatenate([self.values, ops.expand_dims(new, 2)], axis=2))

    def written(self, index: Tensor) -> None:
        """None: all positions are."""

    def recent(self, index: Tensor, size: int) -> tuple["GrowingHistory", "GrowingHistory"]:
        """As of `FixedHistory`; no more than what is read is kept."""
        recent = GrowingHistory(self.values[:, :, -size:])
        return recent, recent


History: TypeAlias = FixedHistory | GrowingHistory


def start_history(shape: Shape, length: Tensor, dtype: str, *, grows: bool = False) -> History:
    """An empty history.

    Args:
        shape: shape of what is written at a position, ints or scalar tensors.
        length: number of positions there is room for; `unknown_zero` of a history that grows.
        dtype: of the values. Integers start as `UNWRITTEN`.
        grows: whether the history is a `GrowingHistory`.
    """
    empty = UNWRITTEN if "int" in dtype else 0
    kind = GrowingHistory if grows else FixedHistory
    return kind(ops.full((*shape[:2], length, *shape[2:]), empty, dtype=dtype))


def unknown_zero(ids: Tensor) -> Tensor:
    """0 as a scalar that graphs compute from `ids`: an axis of this size may grow in their loops.

    A size known when a graph is made would have to stay.
    """
    return ops.cast(ops.sum(ids[:0]), "int32")


def ancestor_mask(ancestors: History) -> Tensor:
    """The entries that each hypothesis may attend to.

    Args:
        ancestors: int32 (batch, beams, length), the beam that wrote a hypothesis' entry of each
            position.

    Returns:
        Bool (batch, beams, length * beams): the entries of a position stand together.
    """
    values = ancestors.values
    batch_size, beams, length = ops.shape(values)
    is_own = ops.equal(ops.expand_dims(values, 3), ops.arange(beams))
    return ops.reshape(is_own, (batch_size, beams, length * beams))


def recent_entries(mask: Tensor, history: History, index: Tensor, size: int) -> Tensor:
    """The part of a mask that is for what `history.recent` reads.

    Args:
        mask: bool (..., length * beams) of the entries of a whole cache, or None.
        history: of the cache, values (batch, heads, length, beams, dim).
        index, size: as of `recent`.

    Returns:
        Bool (batch or 1, beams or 1, entries), or None.
    """
    if mask is None:
        return None
    beams = ops.shape(history.values)[3]
    rows, targets = ops.shape(mask)[:-1] if len(mask.shape) == 3 else (1, 1)
    entries = type(history)(ops.reshape(mask, (rows, targets, -1, beams)))
    return ops.reshape(entries.recent(index, size)[1].values, (rows, targets, -1))

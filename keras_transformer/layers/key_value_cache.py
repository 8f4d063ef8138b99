"""Caches of earlier positions for stepwise decoding.

Arrays are written once per position. Beams that fork share the entries from before the fork.
`ancestor_mask` tells which entries belong to a beam, so keys and values stay in place when a search
reorders its hypotheses.

Axes: rows (of a batch), heads, length, beams, dim; entries (length * beams, in the order of their
positions).
"""

from typing import NamedTuple, TypeAlias

from keras import ops

from keras_transformer.types import Shape, Tensor

UNWRITTEN = -1


class FixedHistory(NamedTuple):
    """Space for a fixed number of positions on the third axis of `values`. Shapes never change."""

    values: Tensor

    def write(self, new: Tensor, index: Tensor) -> "FixedHistory":
        """The history with `new`, shaped as `values` without its third axis, written at `index`."""
        starts = [0, 0, ops.cast(index, "int32"), *[0] * (len(self.values.shape) - 3)]
        # On PyTorch, Keras computes float64 in float32, and the two types do not mix.
        new = ops.cast(ops.expand_dims(new, 2), self.values.dtype)
        return FixedHistory(ops.slice_update(self.values, starts, new))

    def positions(self, index: Tensor) -> Tensor:
        """All positions that fit, int32 (length,); `index` was written last."""
        return ops.arange(ops.shape(self.values)[2])

    def written(self, index: Tensor) -> Tensor | None:
        """Mask of the written positions, including `index`: bool (length,); None: all."""
        return ops.less_equal(self.positions(index), index)

    def recent(self, index: Tensor, size: int) -> tuple["FixedHistory", "FixedHistory"]:
        """What to keep and what to read if a step sees the last `size` positions up to `index`.

        At first, some of these positions are not yet written.
        """
        batch, heads, length, *rest = ops.shape(self.values)
        start = ops.maximum(index + 1 - size, 0)
        size = min(size, length) if isinstance(length, int) else ops.minimum(size, length)
        shape = (batch, heads, size, *rest)
        starts = (0, 0, start, *(0 for _ in rest))
        return self, FixedHistory(ops.slice(self.values, starts, shape))


class GrowingHistory(NamedTuple):
    """Space for the written positions only. `write` always appends and ignores `index`.

    Work and memory follow the output's length, but the third axis grows from step to step. This is
    for TensorFlow graphs.
    """

    values: Tensor

    def write(self, new: Tensor, index: Tensor) -> "GrowingHistory":
        """Same as in `FixedHistory`. `index` is the number of positions so far."""
        return GrowingHistory(ops.concatenate([self.values, ops.expand_dims(new, 2)], axis=2))

    def positions(self, index: Tensor) -> Tensor:
        """Same as in `FixedHistory`."""
        length = ops.shape(self.values)[2]
        return index + 1 - length + ops.arange(length)

    def written(self, index: Tensor) -> Tensor | None:
        """None: all positions are written."""
        return None

    def recent(self, index: Tensor, size: int) -> tuple["GrowingHistory", "GrowingHistory"]:
        """Same as in `FixedHistory`, but only the positions that are read are kept."""
        recent = GrowingHistory(self.values[:, :, -size:])
        return recent, recent


History: TypeAlias = FixedHistory | GrowingHistory


def start_history(shape: Shape, length: Tensor, dtype: str, *, grows: bool = False) -> History:
    """An empty history.

    Args:
        shape: shape of what is written at a position, ints or scalar tensors.
        length: number of positions that fit; `unknown_zero` for a history that grows.
        dtype: dtype of the values. Integers start as `UNWRITTEN`.
        grows: whether the history is a `GrowingHistory`.
    """
    empty = UNWRITTEN if "int" in dtype else 0
    kind = GrowingHistory if grows else FixedHistory
    return kind(ops.full((*shape[:2], length, *shape[2:]), empty, dtype=dtype))


def unknown_zero(ids: Tensor) -> Tensor:
    """A scalar 0 that graphs compute from `ids`, so that an axis of this size may grow in loops.

    A size that is known when the graph is traced could not change.
    """
    return ops.cast(ops.sum(ids[:0]), "int32")


def ancestor_mask(ancestors: History) -> Tensor:
    """The entries that each beam may attend to.

    Args:
        ancestors: int32 (rows, beams, length), the beam that wrote each beam's entry at each
            position.

    Returns:
        Bool (rows, beams, entries).
    """
    values = ancestors.values
    rows, beams, length = ops.shape(values)
    is_own = ops.equal(ops.expand_dims(values, 3), ops.arange(beams))
    return ops.reshape(is_own, (rows, beams, length * beams))


class KeyValueCache(NamedTuple):
    """The keys and values of one attention layer at the positions so far."""

    keys: History  # values (rows, heads, length, beams, key_dim)
    values: History  # values (rows, heads, length, beams, value_dim)

    def write(self, key: Tensor, value: Tensor, index: Tensor) -> "KeyValueCache":
        """The cache with each beam's key and value, (rows, heads, beams, dim), at `index`."""
        return KeyValueCache(self.keys.write(key, index), self.values.write(value, index))

    def read(
        self, index: Tensor, mask: Tensor | None, window: int | None
    ) -> tuple["KeyValueCache", Tensor, Tensor, Tensor | None]:
        """What a step attends to after its own position is written.

        Args:
            index: scalar integer tensor, the position that was written last.
            mask: bool (rows, beams, entries), the entries that each beam may attend to; None: the
                entries that it wrote itself.
            window: number of visible positions; None: all.

        Returns:
            cache: what to keep for the next step.
            keys, values: tensors (rows, heads, entries, dim), within the window.
            mask: bool (rows or 1, beams, entries) or (entries,) of these entries; None: all.
        """
        mask = self._own_entries(index) if mask is None else mask
        kept, seen = self, self
        if window is not None:
            mask = None if mask is None else self._recent_part(mask, index, window)
            parts = (history.recent(index, window) for history in self)
            kept, seen = (KeyValueCache(*pair) for pair in zip(*parts, strict=True))
        return kept, _entries(seen.keys), _entries(seen.values), mask

    def positions(self, index: Tensor, window: int | None) -> Tensor:
        """The positions of the keys that `read` returns, int32 (entries,)."""
        _, _, length, beams, _ = ops.shape(self.keys.values)
        positions = ops.expand_dims(self.keys.positions(index), 1)
        positions = ops.reshape(ops.broadcast_to(positions, (length, beams)), (-1,))
        if window is None:
            return positions
        return ops.reshape(self._recent_part(positions, index, window), (-1,))

    def _own_entries(self, index: Tensor) -> Tensor | None:
        """Mask of the entries that each beam wrote itself; None for all."""
        written = self.keys.written(index)
        if self.keys.values.shape[3] == 1:
            return written
        _, _, length, beams, _ = ops.shape(self.keys.values)
        own = ops.broadcast_to(
            ops.expand_dims(ops.eye(beams, dtype="bool"), 1), (beams, length, beams)
        )
        if written is not None:
            own = ops.logical_and(own, ops.expand_dims(written, 1))
        return ops.reshape(own, (1, beams, length * beams))

    def _recent_part(self, values: Tensor, index: Tensor, window: int) -> Tensor:
        """The part of per-entry values inside the window, (rows, beams, entries) or (entries,)."""
        beams = ops.shape(self.keys.values)[3]
        rows, targets = ops.shape(values)[:-1] if len(values.shape) == 3 else (1, 1)
        entries = type(self.keys)(ops.reshape(values, (rows, targets, -1, beams)))
        return ops.reshape(entries.recent(index, window)[1].values, (rows, targets, -1))


def _entries(history: History) -> Tensor:
    """Reshape (rows, heads, length, beams, dim) to (rows, heads, entries, dim)."""
    rows, heads, _, _, dim = ops.shape(history.values)
    return ops.reshape(history.values, (rows, heads, -1, dim))

"""Caches of earlier positions for stepwise decoding.

Arrays are written once per position. Beams that fork share the entries from before the fork.
`ancestor_mask` indicates which entries belong to each beam, so keys and values stay in place when a
search reorders its hypotheses.

Axes: rows (of a batch), heads, length, beams, dim; entries (length * beams, in position order).
"""

from typing import NamedTuple, TypeAlias

from keras import ops

from keras_transformer.types import Shape, Tensor

UNWRITTEN = -1


class FixedHistory(NamedTuple):
    """A history with a fixed number of positions on the third axis. Its shape never changes."""

    values: Tensor

    def write(self, new: Tensor, index: Tensor) -> "FixedHistory":
        """Write `new`, shaped like `values` without its third axis, at `index`."""
        starts = [0, 0, ops.cast(index, "int32"), *[0] * (len(self.values.shape) - 3)]
        # On PyTorch, Keras computes float64 in float32, and the two types do not mix.
        new = ops.cast(ops.expand_dims(new, 2), self.values.dtype)
        return FixedHistory(ops.slice_update(self.values, starts, new))

    def positions(self, index: Tensor) -> Tensor:
        """Return all available positions, int32 (length,); `index` is the last one written."""
        return ops.arange(ops.shape(self.values)[2])

    def written(self, index: Tensor) -> Tensor | None:
        """Return a mask of the written positions, 0 to `index`: bool (length,), or None for all."""
        return ops.less_equal(self.positions(index), index)

    def recent(self, index: Tensor, size: int) -> tuple["FixedHistory", "FixedHistory"]:
        """Return the histories to keep and to read for the last `size` positions up to `index`.

        Initially, some of these positions have not been written yet.
        """
        batch, heads, length, *rest = ops.shape(self.values)
        start = ops.maximum(index + 1 - size, 0)
        size = min(size, length) if isinstance(length, int) else ops.minimum(size, length)
        shape = (batch, heads, size, *rest)
        starts = (0, 0, start, *(0 for _ in rest))
        return self, FixedHistory(ops.slice(self.values, starts, shape))


class GrowingHistory(NamedTuple):
    """A history of only the written positions. `write` always appends and ignores `index`.

    Time and memory are proportional to the output length, but the third axis grows with each step.
    Use it in TensorFlow graphs.
    """

    values: Tensor

    def write(self, new: Tensor, index: Tensor) -> "GrowingHistory":
        """Same as in `FixedHistory`, but `index` must be the number of positions so far."""
        return GrowingHistory(ops.concatenate([self.values, ops.expand_dims(new, 2)], axis=2))

    def positions(self, index: Tensor) -> Tensor:
        """Same as in `FixedHistory`."""
        length = ops.shape(self.values)[2]
        return index + 1 - length + ops.arange(length)

    def written(self, index: Tensor) -> Tensor | None:
        """Return None, because all positions are written."""
        return None

    def recent(self, index: Tensor, size: int) -> tuple["GrowingHistory", "GrowingHistory"]:
        """Same as in `FixedHistory`, but keep only the positions to read."""
        recent = GrowingHistory(self.values[:, :, -size:])
        return recent, recent


History: TypeAlias = FixedHistory | GrowingHistory


def start_history(shape: Shape, length: Tensor, dtype: str, *, grows: bool = False) -> History:
    """Create an empty history.

    Args:
        shape: shape of the values written per position, as ints or scalar tensors.
        length: number of positions that fit; use `unknown_zero` for a growing history.
        dtype: dtype of the values. Integers are initialized to `UNWRITTEN`.
        grows: whether to create a `GrowingHistory`.
    """
    empty = UNWRITTEN if "int" in dtype else 0
    kind = GrowingHistory if grows else FixedHistory
    return kind(ops.full((*shape[:2], length, *shape[2:]), empty, dtype=dtype))


def unknown_zero(ids: Tensor) -> Tensor:
    """Return a scalar 0 that is computed from `ids`, so an axis of this size can grow in a loop.

    A size that is known when the graph is traced could not change.
    """
    return ops.cast(ops.sum(ids[:0]), "int32")


def ancestor_mask(ancestors: History) -> Tensor:
    """Return a mask of the entries that each beam may attend to.

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
    """The keys and values of one attention layer for the positions so far."""

    keys: History  # values (rows, heads, length, beams, key_dim)
    values: History  # values (rows, heads, length, beams, value_dim)

    def write(self, key: Tensor, value: Tensor, index: Tensor) -> "KeyValueCache":
        """Write each beam's key and value, (rows, heads, beams, dim), at `index`."""
        return KeyValueCache(self.keys.write(key, index), self.values.write(value, index))

    def read(
        self, index: Tensor, mask: Tensor | None, window: int | None
    ) -> tuple["KeyValueCache", Tensor, Tensor, Tensor | None]:
        """Return the keys and values for a step after the step's own position is written.

        Args:
            index: scalar integer tensor, the last position written.
            mask: bool (rows, beams, entries), the entries that each beam may attend to. Defaults to
                the entries that the beam wrote itself.
            window: number of visible positions, or None for all positions.

        Returns:
            cache: cache to keep for the next step.
            keys, values: tensors (rows, heads, entries, dim), within the window.
            mask: bool (rows or 1, beams, entries) or (entries,) for these entries; None for all.
        """
        mask = self._own_entries(index) if mask is None else mask
        kept, seen = self, self
        if window is not None:
            mask = None if mask is None else self._recent_part(mask, index, window)
            parts = (history.recent(index, window) for history in self)
            kept, seen = (KeyValueCache(*pair) for pair in zip(*parts, strict=True))
        return kept, _entries(seen.keys), _entries(seen.values), mask

    def positions(self, index: Tensor, window: int | None) -> Tensor:
        """Return the positions of the keys returned by `read`, int32 (entries,)."""
        _, _, length, beams, _ = ops.shape(self.keys.values)
        positions = ops.expand_dims(self.keys.positions(index), 1)
        positions = ops.reshape(ops.broadcast_to(positions, (length, beams)), (-1,))
        if window is None:
            return positions
        return ops.reshape(self._recent_part(positions, index, window), (-1,))

    def _own_entries(self, index: Tensor) -> Tensor | None:
        """Return a mask of the entries that each beam wrote itself, or None for all."""
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
        """Select the per-entry values in the window, (rows, beams, entries) or (entries,)."""
        beams = ops.shape(self.keys.values)[3]
        rows, targets = ops.shape(values)[:-1] if len(values.shape) == 3 else (1, 1)
        entries = type(self.keys)(ops.reshape(values, (rows, targets, -1, beams)))
        return ops.reshape(entries.recent(index, window)[1].values, (rows, targets, -1))


def _entries(history: History) -> Tensor:
    """Reshape (rows, heads, length, beams, dim) to (rows, heads, entries, dim)."""
    rows, heads, _, _, dim = ops.shape(history.values)
    return ops.reshape(history.values, (rows, heads, -1, dim))

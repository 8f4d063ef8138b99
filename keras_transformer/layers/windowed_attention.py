"""Block-wise attention within a window around each position, as pure functions.

A block of queries attends to its own keys and to the nearest keys in the neighboring blocks. Time
and memory are thus proportional to length times window size, without a matrix of all pairs.

Axes: batch, heads, length, dim; blocks, block (queries per block), span (keys that a block sees).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from keras_transformer.layers.attention_masks import all_of, zero_hidden_rows
from keras_transformer.types import Tensor

# Shorter blocks would compute fewer masked keys, but their products are too small for CPUs.
LEAST_BLOCK = 64


class Window(NamedTuple):
    """The number of visible positions before and after each position."""

    before: int
    after: int

    @classmethod
    def of(cls, size: int, *, is_causal: bool) -> "Window":
        """Return a window of `size` (odd) positions around or, if causal, up to a position."""
        return cls(size - 1, 0) if is_causal else cls(size // 2, size // 2)

    @property
    def block(self) -> int:
        """Block length, large enough that a block sees at most its neighboring blocks."""
        return max(self.before, self.after, LEAST_BLOCK)

    def pays_in_blocks(self, length: Tensor) -> bool:
        """Return whether a sequence is longer than a block's span, or of unknown length.

        Args:
            length: int or scalar tensor.
        """
        if not isinstance(length, int):  # on JAX only in an export, which cannot split such lengths
            return keras.backend.backend() == "tensorflow"
        return length > self.before + self.block + self.after

    def contains(self, targets: Tensor, sources: Tensor) -> Tensor:
        """Return the visibility mask between positions.

        Args:
            targets: integer tensor (target,), the positions of the queries.
            sources: integer tensor (source,), the positions of the keys.

        Returns:
            Boolean tensor (target, source).
        """
        distances = ops.expand_dims(sources, 0) - ops.expand_dims(targets, 1)
        return ops.logical_and(distances >= -self.before, distances <= self.after)

    def band(self, length: Tensor) -> Tensor:
        """Return the mask for a full sequence, boolean (1, length, length)."""
        positions = ops.arange(length)
        return ops.expand_dims(self.contains(positions, positions), 0)


def attend_in_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    window: Window,
    source_mask: Tensor,
    row_mask: Tensor,
    attend: Callable[..., tuple[Tensor, Tensor]],
    bias: Callable[[Tensor, Tensor], Tensor | None],
) -> Tensor:
    """Apply self-attention within a window.

    Args:
        query: tensor (batch, heads, length, dim).
        key: tensor (batch, heads, length, dim).
        value: tensor (batch, heads, length, value_dim).
        window: visible `Window` of each position.
        source_mask: boolean tensor (batch, heads or 1, 1, length), True = may be attended to, or
            None.
        row_mask: boolean tensor (batch, 1, length, 1), True = may attend, or None.
        attend: callable `(query, key, value, mask, bias) -> (values, weights)`; all tensors have an
            additional blocks axis after the heads. The boolean mask and the bias, which may be
            None, broadcast to (batch, heads, blocks, block, span).
        bias: callable `(targets, sources) -> bias` that returns None or a float32 tensor (heads,
            block, span) to add to the logits. Positions are relative to a block's first position;
            only their distances matter.

    Returns:
        Tensor (batch, heads, length, value_dim).
    """
    blocks = _Blocks.of(ops.shape(query)[2], window)
    is_inside = blocks.is_inside(window)
    columns = rows = None
    if source_mask is not None:  # (batch, heads or 1, blocks, 1, span)
        spans = blocks.spans(ops.expand_dims(ops.squeeze(source_mask, 2), 3))
        columns = ops.expand_dims(ops.squeeze(spans, 4), 3)
    if row_mask is not None:  # (batch, 1, blocks, block, 1)
        rows = blocks.split(row_mask)
    allowed = all_of(is_inside, columns, rows)
    added = bias(*blocks.positions())  # (heads, block, span)
    values, _ = attend(
        blocks.split(query),
        blocks.spans(key),
        blocks.spans(value),
        allowed,
        None if added is None else ops.expand_dims(added, 1),
    )
    if columns is not None or rows is not None:
        values = zero_hidden_rows(values, allowed)
    return blocks.join(values)


class _Blocks(NamedTuple):
    """A sequence split into blocks. Fields are ints, or scalar tensors for unknown lengths."""

    length: Any
    block: Any  # length of a block
    number: Any  # number of blocks; the last block is padded
    before: Any  # number of keys that a block sees in the previous block
    after: Any  # number of keys that a block sees in the next block

    @classmethod
    def of(cls, length: Tensor, window: Window) -> "_Blocks":
        """Split a sequence into blocks. A short sequence is a single block without neighbors."""
        if isinstance(length, int):
            block = window.block
            return cls(length, block, -(-length // block), *window)
        at_least_one = ops.maximum(length, 1)
        block = ops.minimum(window.block, at_least_one)
        number = (at_least_one + block - 1) // block
        neighbors = ops.minimum(number - 1, 1)
        before, after = (neighbors * ops.minimum(reach, block) for reach in window)
        return cls(length, block, number, before, after)

    def positions(self) -> tuple[Tensor, Tensor]:
        """Return positions of queries, (block,), and keys, (span,), relative to the first query."""
        sources = ops.arange(self.before + self.block + self.after) - self.before
        return ops.arange(self.block), sources

    def is_inside(self, window: Window) -> Tensor:
        """Return a mask of keys in the window and the sequence: boolean (blocks, block, span)."""
        in_window = window.contains(*self.positions())  # (block, span)
        starts = ops.expand_dims(ops.arange(self.number) * self.block, 1)
        positions = starts + ops.expand_dims(self.positions()[1], 0)  # (blocks, span)
        exists = ops.logical_and(positions >= 0, positions < self.length)
        return ops.logical_and(in_window, ops.expand_dims(exists, 1))

    def split(self, tensor: Tensor) -> Tensor:
        """Zero-pad and split (batch, heads, length, dim) to (batch, heads, blocks, block, dim)."""
        filled = _with_zeros(tensor, 0, self.number * self.block - self.length)
        batch, heads, _, dim = ops.shape(tensor)
        return ops.reshape(filled, (batch, heads, self.number, self.block, dim))

    def spans(self, tensor: Tensor) -> Tensor:
        """Gather (batch, heads, length, dim) into spans (batch, heads, blocks, span, dim)."""
        block, number = self.block, self.number
        filled = _with_zeros(tensor, block, (number + 1) * block - self.length)
        batch, heads, _, dim = ops.shape(tensor)
        blocks = ops.reshape(filled, (batch, heads, number + 2, block, dim))
        parts = [
            # On TensorFlow, the gradient of `blocks[...]` would take longer than this entire
            # computation.
            ops.slice(blocks, (0, 0, skipped, start, 0), (batch, heads, number, length, dim))
            for skipped, start, length in (
                (0, block - self.before, self.before),
                (1, 0, block),
                (2, 0, self.after),
            )
        ]
        return ops.concatenate(parts, axis=3)

    def join(self, blocks: Tensor) -> Tensor:
        """Reshape (batch, heads, blocks, block, dim) to (batch, heads, length, dim)."""
        batch, heads, _, _, dim = ops.shape(blocks)
        joined = ops.reshape(blocks, (batch, heads, self.number * self.block, dim))
        return ops.slice(joined, (0, 0, 0, 0), (batch, heads, self.length, dim))


def _with_zeros(tensor: Tensor, before: Any, after: Any) -> Tensor:
    """Pad a tensor (batch, heads, length, dim) with positions of 0 or False on both sides."""
    batch, heads, _, dim = ops.shape(tensor)
    start, end = (
        ops.zeros((batch, heads, number, dim), dtype=tensor.dtype) for number in (before, after)
    )
    return ops.concatenate([start, tensor, end], axis=2)

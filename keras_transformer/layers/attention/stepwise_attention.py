"""Attention position by position, and the projections it shares with that of whole sequences.

Axes: batch, heads, target, source, dim, beams, length (of a cache).
"""

import itertools
from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_transformer.layers.attention.scaled_dot_product import MASKED_LOGIT, attention_weights
from keras_transformer.layers.attention_masks import as_attention_mask, for_every_head
from keras_transformer.layers.bases.kernel_layer import KernelLayer
from keras_transformer.layers.dense import Dense
from keras_transformer.layers.initialization import SideBySide
from keras_transformer.layers.matrix_products import sizes
from keras_transformer.layers.step_history import History, recent_entries, start_history
from keras_transformer.types import Tensor

SELF_ATTENTION = "self-attention, without `value`"
TO_VALUE = "attention to `value`"
TO_VALUE_BY_KEY = "attention to `value` with a `key` of its own"


def kind_of(value: Any, key: Any) -> str:
    """What attention some call arguments, or their shapes, ask for."""
    if value is None and key is not None:
        raise ValueError("`value` must be given where `key` is. Received: `key` alone")
    if value is None:
        return SELF_ATTENTION
    return TO_VALUE if key is None else TO_VALUE_BY_KEY


class Projection(Dense):
    """A projection of attention, which saves and loads the weights."""

    def saved_values(self) -> list[Any]:
        """What a file has of this projection; adapters of LoRA are merged."""
        values: dict[str, Any] = {}
        super().save_own_variables(values)
        return list(values.values())

    def load_values(self, values: dict[str, Any]) -> None:
        """Load `saved_values`, numbered."""
        super().load_own_variables(values)

    def save_own_variables(self, store: Any) -> None:
        """Write nothing: see `saved_values`."""

    def load_own_variables(self, store: Any) -> None:
        """Read nothing: see `load_values`."""


class StepwiseAttention(KernelLayer):
    """Projections into heads, and attention of one position at a time: `MultiHeadAttention` is one.

    A search attends with `project_memory` and `attend_memory` to what does not change, such as an
    encoder's output, and with `start_cache` and `step` to the positions before.
    """

    num_heads: int
    key_dim: int
    value_dim: int
    use_bias: bool
    attention_window: int | None
    projections: dict[str, Projection]
    dropout_layer: Any
    built_for: str

    def project_memory(self, value: Tensor, key: Tensor = None) -> tuple[Tensor, Tensor]:
        """Keys and values of a sequence to attend to, computed once and used at every step.

        Args:
            value: tensor (batch, source_length, memory_dim).
            key: tensor that the keys are made of, if the layer was built with one.

        Returns:
            keys: tensor (batch, num_heads, source_length, key_dim).
            values: tensor (batch, num_heads, source_length, value_dim).
        """
        self._check_built_for(kind_of(value, key))
        if key is None:
            return self._split_heads(
                self.projections["key_value"](value), self.key_dim, self.value_dim
            )
        return (
            *self._split_heads(self.projections["key"](key), self.key_dim),
            *self._split_heads(self.projections["value"](value), self.value_dim),
        )

    def attend_memory(
        self, query: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor = None
    ) -> Tensor:
        """Attention of some positions (or beams) to projected memory, for stepwise decoding.

        Args:
            query: tensor (batch, beams, hidden_dim).
            memory: keys and values that `project_memory` returned; shared by all beams.
            mask: boolean tensor (batch, source_length) or (batch, beams, source_length), or None.

        Returns:
            Tensor (batch, beams, hidden_dim).
        """
        (query,) = self._split_heads(self.projections["query"](query), self.key_dim)
        return self._attend_projected(query, *memory, as_attention_mask("mask", mask), False)[0]

    def start_cache(
        self, batch_size: Tensor, beam_size: Tensor, length: Tensor, *, grows: bool = False
    ) -> tuple[History, History]:
        """An empty cache for `step`.

        Args:
            batch_size, beam_size, length: ints or scalar tensors; `length` is the number of
                positions there is room for.
            grows: whether the cache grows with every step instead, from `length` 0.

        Returns:
            Histories (see `layers.step_history`) of keys (batch, num_heads, length, beams, key_dim)
            and of values (batch, num_heads, length, beams, value_dim).
        """
        shape = (batch_size, self.num_heads, beam_size)
        keys, values = (
            start_history((*shape, dim), length, self.compute_dtype, grows=grows)
            for dim in (self.key_dim, self.value_dim)
        )
        return keys, values

    def step(
        self,
        query: Tensor,
        cache: tuple[History, History],
        index: Tensor,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, tuple[History, History]]:
        """Causal self-attention of one position of every beam.

        Args:
            query: tensor (batch, beams, hidden_dim), the inputs at position `index`.
            cache: keys and values of the positions before, as from `start_cache`; or as from
                `start_cache(batch * beams, 1)`, where no beam attends to what another has written.
            index: scalar integer tensor, counted from 0.
            mask: boolean tensor (batch, beams, length * beams) of the cache's entries, from
                `ancestor_mask`; None: a beam attends to what it has written itself.

        Returns:
            output: tensor (batch, beams, hidden_dim).
            cache: the given one with position `index` written. With `attention_window` one that
                grows keeps that many positions.
        """
        self._check_built_for(SELF_ATTENTION)
        keys, values = cache
        rows, _, _, beams, _ = ops.shape(keys.values)
        inputs = query
        if query.shape[1] is None or query.shape[1] != beams:  # rows of their own
            inputs = ops.reshape(query, (rows, beams, query.shape[-1]))
        new_query, new_key, new_value = self._project_inputs(inputs)  # (rows, heads, beams, dim)
        keys, values = keys.write(new_key, index), values.write(new_value, index)
        if mask is None:
            mask = self._own_entries(keys, index)
        read_keys, read_values = keys, values
        if self.attention_window is not None:
            mask = recent_entries(mask, keys, index, self.attention_window)
            keys, read_keys = keys.recent(index, self.attention_window)
            values, read_values = values.recent(index, self.attention_window)
        all_keys, all_values = (  # (rows, heads, length * beams, dim)
            ops.reshape(of.values, (rows, self.num_heads, -1, of.values.shape[-1]))
            for of in (read_keys, read_values)
        )
        output, _ = self._attend_projected(
            new_query, all_keys, all_values, for_every_head(mask), False
        )
        return ops.reshape(output, sizes(query)), (keys, values)

    @staticmethod
    def _own_entries(keys: History, index: Tensor) -> Tensor | None:
        """Mask of the entries that each beam has written itself; None for all."""
        written = keys.written(index)
        if keys.values.shape[3] == 1:
            return written
        _, _, length, beams, _ = ops.shape(keys.values)
        own = ops.broadcast_to(
            ops.expand_dims(ops.eye(beams, dtype="bool"), 1), (beams, length, beams)
        )
        if written is not None:
            own = ops.logical_and(own, ops.expand_dims(written, 1))
        return ops.reshape(own, (1, beams, length * beams))

    def _add_projection(
        self,
        name: str,
        input_width: int,
        output_widths: Sequence[int],
        gains: Sequence[float] | None = None,
    ) -> None:
        projection = Projection(
            sum(output_widths),
            use_bias=self.use_bias,
            **self.kernel_options()
            | {
                "kernel_initializer": SideBySide(self.kernel_initializer, output_widths, gains),
                "bias_initializer": SideBySide(self.bias_initializer, output_widths),
            },
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, input_width))
        projection.kernel.side_by_side = tuple(output_widths)  # for `optimizers.Muon`
        self.projections[name] = projection

    def save_own_variables(self, store: Any) -> None:
        """Write the weights of all projections in a row, as the files of all versions have them."""
        values = [v for projection in self.projections.values() for v in projection.saved_values()]
        for number, value in enumerate(values):
            store[str(number)] = value

    def load_own_variables(self, store: Any) -> None:
        """Load what `save_own_variables` wrote."""
        numbers = iter(range(len(store.keys())))
        parts = [
            {str(i): store[str(next(numbers))] for i in range(len(projection.saved_values()))}
            for projection in self.projections.values()
        ]
        if next(numbers, None) is not None:
            raise ValueError(
                f"The weights of `{self.name}` must be {sum(map(len, parts))}. "
                f"Received: {len(store.keys())}"
            )
        for projection, values in zip(self.projections.values(), parts, strict=True):
            projection.load_values(values)

    def _check_built_for(self, kind: str) -> None:
        if self.built and kind != self.built_for:
            raise ValueError(
                f"`{self.name}` was built for {self.built_for}, and keeps to it. "
                f"Received: a call for {kind}"
            )

    def _project_inputs(
        self, query: Tensor, value: Tensor = None, key: Tensor = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (..., heads, length, dim) of the call arguments."""
        if value is not None:
            queries = self._split_heads(self.projections["query"](query), self.key_dim)
            return (*queries, *self.project_memory(value, key))
        projected = self.projections["query_key_value"](query)
        return self._split_heads(projected, self.key_dim, self.key_dim, self.value_dim)

    def _split_heads(self, projected: Tensor, *dims: int) -> tuple[Tensor, ...]:
        """(..., length, heads * (dim + ...)) to (..., heads, length, dim), one for each dim."""
        ends = [self.num_heads * end for end in itertools.accumulate(dims)]
        parts = ops.split(projected, ends[:-1], axis=-1) if len(dims) > 1 else [projected]
        *leading, length, _ = sizes(projected)
        if projected.shape[-2] == 1:  # nothing changes places
            shape = (*leading, self.num_heads, length)
            return tuple(
                ops.reshape(part, (*shape, dim)) for part, dim in zip(parts, dims, strict=True)
            )
        shape = (*leading, length, self.num_heads)
        return tuple(
            ops.swapaxes(ops.reshape(part, (*shape, dim)), -3, -2)
            for part, dim in zip(parts, dims, strict=True)
        )

    def _merge_heads(self, inputs: Tensor) -> Tensor:
        """(..., heads, length, dim) to (..., length, heads * dim)."""
        outputs = inputs if inputs.shape[-2] == 1 else ops.swapaxes(inputs, -3, -2)
        *leading, heads, length, _ = sizes(inputs)
        return ops.reshape(outputs, (*leading, length, heads * self.value_dim))

    def _attend_projected(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        training: bool | None,
        masked_logits: Tensor = MASKED_LOGIT,
    ) -> tuple[Tensor, Tensor]:
        """The layer's output (..., target, hidden_dim), and the weights before dropout."""
        context, scores = self._attend(query, key, value, mask, masked_logits, training)
        return self.projections["output"](self._merge_heads(context)), scores

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        masked_logits: Tensor,
        training: bool | None,
    ) -> tuple[Tensor, Tensor]:
        """Attended values (..., target, dim) and weights (..., target, source) of every head."""
        scores = attention_weights(query, key, mask, masked_logits)
        weights = self.dropout_layer(ops.cast(scores, value.dtype), training=training)
        return ops.matmul(weights, value), scores

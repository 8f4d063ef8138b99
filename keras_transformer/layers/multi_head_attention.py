"""Multi-head attention. Axes: batch, heads, target, source, dim, beams, length (of a cache)."""

import itertools
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_int,
    check_rate,
    known_width,
)
from keras_transformer.layers.attention import FUSED_LENGTH, attention_weights, fused_attention
from keras_transformer.layers.attention_masks import (
    all_of,
    as_attention_mask,
    as_row_mask,
    as_source_mask,
    causal_mask,
    check_attention_mask,
)
from keras_transformer.layers.bias_addition import add_bias
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initialization import SideBySide, checked_initializer
from keras_transformer.layers.matrix_products import sizes, times_matrix
from keras_transformer.layers.step_history import History, start_history
from keras_transformer.types import Shape, Tensor

SELF_ATTENTION = "self-attention, without `value`"
TO_VALUE = "attention to `value`"
TO_VALUE_BY_KEY = "attention to `value` with a `key` of its own"


def _kind_of(value: Any, key: Any) -> str:
    """What attention some call arguments, or their shapes, ask for."""
    if value is None and key is not None:
        raise ValueError("`value` must be given where `key` is. Received: `key` alone")
    if value is None:
        return SELF_ATTENTION
    return TO_VALUE if key is None else TO_VALUE_BY_KEY


def _for_every_head(mask: Tensor) -> Tensor:
    """A mask (..., target, source) as (..., 1, target, source); (source,) and None stay."""
    return mask if mask is None or len(mask.shape) < 2 else ops.expand_dims(mask, -3)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Scaled dot-product attention in several heads.

    Self-attention (no `value`) projects queries, keys and values with one fused matrix, attention
    to another sequence projects keys and values with one. Each part of a fused matrix or bias is
    initialised as the separate one it stands for. A layer is built for the arguments of its first
    call (`query` alone, with `value`, or with `value` and `key`) and keeps to them.

    Long sequences, 512 positions and more, are attended to by `keras.ops.dot_product_attention`,
    which never holds the weights of all pairs of positions where the backend has a fused kernel for
    the device and the dtype (on JAX: cuDNN's flash attention, float16 and bfloat16). That is done
    where lengths are known when the call is traced, `key_dim` equals `value_dim`, and attention
    dropout is not active: fused kernels have no dropout. So a training with `dropout` above 0 does
    not get them, nor does a call that returns the scores.
    `keras.config.disable_flash_attention()` switches them off.

    Args:
        num_heads: number of heads.
        key_dim: size of a head's queries and keys, free of the input's size.
        value_dim: size of a head's values; `key_dim` if None.
        dropout: rate of dropout on the attention weights.
        use_bias: whether the projections have biases (the paper's have none).
        kernel_initializer: initializer of the projections' matrices.
        bias_initializer: initializer of their biases.
        **kwargs: `name`, `dtype` and `trainable`, as of `keras.layers.Layer`.

    Call arguments:
        query: tensor (batch, target_length, hidden_dim).
        value: tensor (batch, source_length, memory_dim) to attend to; None: `query` itself.
        key: tensor (batch, source_length, any size) that the keys are made of; None: `value`.
        query_mask, value_mask, key_mask: masks of padding, (batch, target_length) for the query and
            (batch, source_length) for the others, True at real tokens. Keras takes them from masked
            inputs. In self-attention `query_mask` hides the padding from the other positions.
        attention_mask: boolean tensor, True = may attend: (batch, source_length), or
            (batch, target_length, source_length). All masks that are given hold together.
        return_attention_scores: whether to return the attention weights too.
        training: whether dropout is active.
        use_causal_mask: whether a position attends to itself and earlier ones alone.
        mask: `query_mask`, under the name that Keras gives it where `query` is the only tensor.

    Returns:
        Tensor (batch, target_length, hidden_dim) with the Keras mask of `query`. With
        `return_attention_scores` a pair: this, and the attention weights before dropout, float32
        (batch, num_heads, target_length, source_length).

    Raises:
        ValueError: an argument breaks its rule, a mask has another rank, or a call is of another
            kind than the layer was built for.

    Example:
        >>> import numpy as np
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> tuple(layer(np.ones((1, 5, 8), "float32")).shape)
        (1, 5, 8)

    Reference: Vaswani et al. (2017), section 3.2.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        *,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        value_dim = key_dim if value_dim is None else value_dim
        check_positive_int("num_heads", num_heads)
        check_positive_int("key_dim", key_dim)
        check_positive_int("value_dim", value_dim)
        check_rate("dropout", dropout)
        check_bool("use_bias", use_bias)
        self.supports_masking = True
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.kernel_initializer = checked_initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = checked_initializer("bias_initializer", bias_initializer)
        self.dropout_layer = Dropout(dropout, dtype=self.dtype_policy)

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        hidden_dim = known_width("query", query_shape)
        key_width, value_width = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.built_for = _kind_of(value_shape, key_shape)
        if value_shape is None:
            widths = (key_width, key_width, value_width)
            self._add_projection("query_key_value", hidden_dim, widths)
        else:
            self._add_projection("query", hidden_dim, (key_width,))
            if key_shape is None:
                self._add_projection(
                    "key_value", known_width("value", value_shape), (key_width, value_width)
                )
            else:
                self._add_projection("key", known_width("key", key_shape), (key_width,))
                self._add_projection("value", known_width("value", value_shape), (value_width,))
        self._add_projection("output", value_width, (hidden_dim,))

    def _add_projection(self, name: str, input_width: int, output_widths: Sequence[int]) -> None:
        kernel = self.add_weight(
            shape=(input_width, sum(output_widths)),
            initializer=SideBySide(self.kernel_initializer, output_widths),
            name=f"{name}_kernel",
        )
        bias = None
        if self.use_bias:
            bias = self.add_weight(
                shape=(sum(output_widths),),
                initializer=SideBySide(self.bias_initializer, output_widths),
                name=f"{name}_bias",
            )
        setattr(self, f"{name}_kernel", kernel)
        setattr(self, f"{name}_bias", bias)

    def call(
        self,
        query: Tensor,
        value: Tensor = None,
        key: Tensor = None,
        *,
        query_mask: Tensor = None,
        value_mask: Tensor = None,
        key_mask: Tensor = None,
        attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
        mask: Tensor = None,
    ) -> Tensor:
        self._check_built_for(_kind_of(value, key))
        query_mask = mask if query_mask is None else query_mask
        lengths = ops.shape(query)[1], ops.shape(query if value is None else value)[1]
        allowed = all_of(
            as_source_mask("query_mask", query_mask if value is None else None),
            as_source_mask("value_mask", value_mask),
            as_source_mask("key_mask", key_mask),
            as_attention_mask("attention_mask", attention_mask),
            as_row_mask("query_mask", query_mask),
            causal_mask(*lengths) if use_causal_mask else None,
        )
        query, key, value = self._project_inputs(query, value, key)
        if not return_attention_scores and self._can_fuse(query, key, training):
            context = fused_attention(query, key, value, _for_every_head(allowed))
            return self._project(self._merge_heads(context), "output")
        output, scores = self._attend_projected(query, key, value, allowed, training)
        return (output, scores) if return_attention_scores else output

    def project_memory(self, value: Tensor, key: Tensor = None) -> tuple[Tensor, Tensor]:
        """Keys and values of a sequence to attend to, computed once and used at every step.

        Args:
            value: tensor (batch, source_length, memory_dim).
            key: tensor that the keys are made of, if the layer was built with one.

        Returns:
            keys: tensor (batch, num_heads, source_length, key_dim).
            values: tensor (batch, num_heads, source_length, value_dim).
        """
        self._check_built_for(_kind_of(value, key))
        if key is None:
            return self._split_heads(
                self._project(value, "key_value"), self.key_dim, self.value_dim
            )
        return (
            *self._split_heads(self._project(key, "key"), self.key_dim),
            *self._split_heads(self._project(value, "value"), self.value_dim),
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
        (query,) = self._split_heads(self._project(query, "query"), self.key_dim)
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
            cache: the given one with position `index` written.
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
        all_keys, all_values = (  # (rows, heads, length * beams, dim)
            ops.reshape(of.values, (rows, self.num_heads, -1, of.values.shape[-1]))
            for of in (keys, values)
        )
        output, _ = self._attend_projected(new_query, all_keys, all_values, mask, False)
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

    def _can_fuse(self, query: Tensor, key: Tensor, training: bool | None) -> bool:
        lengths = query.shape[-2], key.shape[-2]
        return (
            keras.config.is_flash_attention_enabled() is not False
            and self.key_dim == self.value_dim
            and (self.dropout == 0 or training is False)
            # None is a length that only the run knows. cuDNN's gradients need even ones.
            and all(length and length >= FUSED_LENGTH and length % 2 == 0 for length in lengths)
        )

    def _check_built_for(self, kind: str) -> None:
        if self.built and kind != self.built_for:
            raise ValueError(
                f"`{self.name}` was built for {self.built_for}, and keeps to it. "
                f"Received: a call for {kind}"
            )

    def _project(self, inputs: Tensor, name: str) -> Tensor:
        # Keras casts inputs and weights in `call` alone; steps must compute in the same dtype.
        inputs = ops.cast(inputs, self.compute_dtype)
        kernel = ops.cast(getattr(self, f"{name}_kernel"), self.compute_dtype)
        outputs = times_matrix(inputs, kernel)
        bias = getattr(self, f"{name}_bias")
        return outputs if bias is None else add_bias(outputs, bias)

    def _project_inputs(
        self, query: Tensor, value: Tensor = None, key: Tensor = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values (..., heads, length, dim) of the call arguments."""
        if value is not None:
            queries = self._split_heads(self._project(query, "query"), self.key_dim)
            return (*queries, *self.project_memory(value, key))
        projected = self._project(query, "query_key_value")
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
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, training: bool | None
    ) -> tuple[Tensor, Tensor]:
        # (..., heads, target, source)
        scores = attention_weights(query, key, _for_every_head(mask))
        weights = self.dropout_layer(ops.cast(scores, value.dtype), training=training)
        context = self._merge_heads(ops.matmul(weights, value))  # (..., target, heads * dim)
        return self._project(context, "output"), scores

    def compute_output_shape(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> Shape:
        return tuple(query_shape)

    def compute_output_spec(
        self,
        query: Tensor,
        value: Tensor = None,
        key: Tensor = None,
        *,
        attention_mask: Tensor = None,
        return_attention_scores: bool = False,
        **_: Any,
    ) -> Any:
        self._check_built_for(_kind_of(value, key))
        check_attention_mask("attention_mask", attention_mask)
        output = keras.KerasTensor(query.shape, self.compute_dtype)
        if not return_attention_scores:
            return output
        source_length = (query if value is None else value).shape[1]
        shape = (query.shape[0], self.num_heads, query.shape[1], source_length)
        return output, keras.KerasTensor(shape, "float32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
        }

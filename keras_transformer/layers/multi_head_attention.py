"""Multi-head attention. Axes: batch, heads, target, source, dim, beams, length (of a cache)."""

import functools
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_int,
    check_positive_number,
    check_rate,
    check_seed,
    check_vectors,
    check_window,
    known_width,
    python_number,
)
from keras_transformer.layers.attention.scaled_dot_product import FUSED_LENGTH, fused_attention
from keras_transformer.layers.attention.stepwise_attention import (
    SELF_ATTENTION,
    StepwiseAttention,
    kind_of,
)
from keras_transformer.layers.attention.windowed_attention import (
    Window,
    attend_in_blocks,
    masked_logits,
)
from keras_transformer.layers.attention_masks import (
    all_of,
    as_attention_mask,
    as_row_mask,
    as_source_mask,
    causal_mask,
    for_every_head,
    mask_axes,
)
from keras_transformer.layers.dropout import Dropout
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(StepwiseAttention):
    """Scaled dot-product attention in several heads.

    Self-attention (no `value`) projects queries, keys and values with one fused matrix, attention
    to another sequence projects keys and values with one. Each part of a fused matrix or bias is
    initialised as the separate one it stands for. A layer is built for the arguments of its first
    call (`query` alone, with `value`, or with `value` and `key`) and keeps to them.

    Long sequences are attended to by `keras.ops.dot_product_attention`, which never holds the
    weights of all pairs of positions where the backend has a fused kernel for the device and the
    dtype (on JAX: cuDNN's flash attention, float16 and bfloat16). That is done where both sides
    have an even number of at least 512 positions, known when the call is traced, `key_dim` equals
    `value_dim`, and attention dropout is not active: fused kernels have no dropout. So a training
    with `dropout` above 0 does not get them, nor does a call that returns the scores.
    `keras.config.disable_flash_attention()` switches them off.

    With `attention_window=r`, the paper's restricted self-attention, a position sees itself and the
    (r - 1) / 2 positions on each side, or, under a causal mask, itself and the r - 1 before. Time
    and memory then grow with the length times r: attention is computed in blocks, and the weights
    of all pairs are never held, except where the call returns the scores (0 outside of the window),
    has an `attention_mask` with a row for each position, or is for a sequence that is hardly longer
    than the window. A row whose window is all masked is uniform over its window.

    Args:
        num_heads: number of heads.
        key_dim: size of a head's queries and keys, free of the input's size.
        value_dim: size of a head's values; `key_dim` if None.
        dropout: rate of dropout on the attention weights.
        use_bias: whether the projections have biases (the paper's have none).
        attention_window: number of positions that a position sees, itself counted, odd; for
            self-attention. None: all.
        kernel_initializer: initializer of the projections' matrices.
        bias_initializer: initializer of their biases.
        kernel_regularizer, bias_regularizer: regularizers of the projections, as of
            `keras.layers.Dense`; a fused matrix counts as one.
        kernel_constraint, bias_constraint: constraints of the projections; a fused matrix counts as
            one.
        initial_gain: factor of the initial matrices of the values and of the output, as in DeepNorm
            (see `ResidualBlock`).
        seed: integer, seed of the dropout; None: one of Keras's own.
        **kwargs: `name`, `dtype` and `trainable`, as of `keras.layers.Layer`.

    Call arguments:
        query: tensor (batch, target_length, hidden_dim).
        value: tensor (batch, source_length, memory_dim) to attend to; None: `query` itself.
        key: tensor (batch, source_length, any size) that the keys are made of; None: `value`.
        query_mask, value_mask, key_mask: masks of padding, (batch, target_length) for the query and
            (batch, source_length) for the others, True at real tokens. Keras takes them from masked
            inputs. In self-attention `query_mask` hides the padding from the other positions.
        attention_mask: boolean tensor, True = may attend: padding (batch, source_length), or
            attention (batch, target_length, source_length) or (batch, num_heads, target_length,
            source_length); axes along which a mask is the same may be 1. One of rank 2 is read as
            Keras's (target_length, source_length) where the batch is known and its first axis is
            not the batch's size. Where the two sizes are equal it is padding: give
            (1, target_length, source_length) instead. All masks that are given hold together.
        return_attention_scores: whether to return the attention weights too.
        training: whether dropout is active.
        use_causal_mask: whether a position attends to itself and earlier ones alone.
        mask: `query_mask`, under the name that Keras gives it where `query` is the only tensor.

    Returns:
        Tensor (batch, target_length, hidden_dim) with the Keras mask of `query`. With
        `return_attention_scores` a pair: this, and the attention weights before dropout, float32
        (batch, num_heads, target_length, source_length).

    Raises:
        ValueError: an argument breaks its rule, an input is not of rank 3, a mask has another
            shape, or a call is of another kind than the layer was built for.

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
        attention_window: int | None = None,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        initial_gain: float = 1.0,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            **kwargs,
        )
        value_dim = key_dim if value_dim is None else value_dim
        check_positive_int("num_heads", num_heads)
        check_positive_int("key_dim", key_dim)
        check_positive_int("value_dim", value_dim)
        check_rate("dropout", dropout)
        check_bool("use_bias", use_bias)
        check_window("attention_window", attention_window)
        check_positive_number("initial_gain", initial_gain)
        check_seed("seed", seed)
        self.num_heads = python_number(num_heads)
        self.key_dim = python_number(key_dim)
        self.value_dim = python_number(value_dim)
        self.dropout = python_number(dropout)
        self.use_bias = use_bias
        self.attention_window = python_number(attention_window)
        self.initial_gain = python_number(initial_gain)
        self.seed = python_number(seed)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")
        self.projections = {}

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        hidden_dim = known_width("query", query_shape)
        key_width, value_width = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.built_for = kind_of(value_shape, key_shape)
        if self.attention_window is not None and self.built_for != SELF_ATTENTION:
            raise ValueError(
                "`attention_window` must be None for attention to `value`. Received: "
                f"attention_window={self.attention_window}"
            )
        gain = self.initial_gain
        if value_shape is None:
            widths = (key_width, key_width, value_width)
            self._add_projection("query_key_value", hidden_dim, widths, (1, 1, gain))
        else:
            self._add_projection("query", hidden_dim, (key_width,))
            if key_shape is None:
                self._add_projection(
                    "key_value",
                    known_width("value", value_shape),
                    (key_width, value_width),
                    (1, gain),
                )
            else:
                self._add_projection("key", known_width("key", key_shape), (key_width,))
                self._add_projection(
                    "value", known_width("value", value_shape), (value_width,), (gain,)
                )
        self._add_projection("output", value_width, (hidden_dim,), (gain,))
        self.finish_build()

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
        shape = self._scores_shape(query, value, key)
        source = query if value is None else value
        of_query = as_source_mask(
            "query_mask", mask if query_mask is None else query_mask, query.shape
        )
        rows = as_row_mask(of_query)
        columns = all_of(
            of_query if value is None else None,
            as_source_mask("value_mask", value_mask, source.shape),
            as_source_mask("key_mask", key_mask, source.shape),
        )
        pairs = as_attention_mask("attention_mask", attention_mask, shape)
        if self.attention_window is not None:
            window = Window.of(self.attention_window, is_causal=use_causal_mask)
            output, scores = self._attend_to_window(
                query, window, columns, pairs, rows, training, return_attention_scores
            )
            return (output, scores) if return_attention_scores else output
        causal = None
        if use_causal_mask:
            causal = for_every_head(causal_mask(ops.shape(query)[1], ops.shape(source)[1]))
        allowed = all_of(columns, pairs, rows, causal)
        query, key, value = self._project_inputs(query, value, key)
        if not return_attention_scores and self._can_fuse(query, key, training):
            context = fused_attention(query, key, value, allowed)
            return self.projections["output"](self._merge_heads(context))
        output, scores = self._attend_projected(query, key, value, allowed, training)
        return (output, scores) if return_attention_scores else output

    def _attend_to_window(
        self,
        query: Tensor,
        window: Window,
        columns: Tensor,
        pairs: Tensor,
        rows: Tensor,
        training: bool | None,
        needs_scores: bool,
    ) -> tuple[Tensor, Tensor]:
        """Self-attention to a window: the output, and the weights if they are needed.

        Args:
            query: tensor (batch, length, hidden_dim).
            window: the `Window`.
            columns, pairs, rows: masks (batch, 1, 1, length), (batch, heads or 1, length or 1,
                length) and (batch, 1, length, 1), or None.
            training: whether dropout is active.
            needs_scores: whether the weights are needed.
        """
        if pairs is not None and pairs.shape[2] == 1 and pairs.shape[3] != 1:
            columns, pairs = all_of(columns, pairs), None
        length = ops.shape(query)[1]
        query, key, value = self._project_inputs(query)
        if needs_scores or pairs is not None or not window.pays_in_blocks(length):
            band = for_every_head(window.band(length))
            return self._attend_projected(
                query,
                key,
                value,
                all_of(band, columns, pairs, rows),
                training,
                masked_logits(band),
            )

        attend = functools.partial(self._attend, training=training)
        context = attend_in_blocks(query, key, value, window, columns, rows, attend)
        return self.projections["output"](self._merge_heads(context)), None

    def _scores_shape(self, query: Tensor, value: Tensor, key: Tensor) -> Shape:
        """Shape (batch, heads, target, source) of the attention; checks the arguments."""
        self._check_built_for(kind_of(value, key))
        for name, tensor in (("query", query), ("value", value), ("key", key)):
            if tensor is not None:
                check_vectors(name, tensor.shape)
        source = query if value is None else value
        return query.shape[0], self.num_heads, query.shape[1], source.shape[1]

    def _can_fuse(self, query: Tensor, key: Tensor, training: bool | None) -> bool:
        lengths = query.shape[-2], key.shape[-2]
        return (
            keras.config.is_flash_attention_enabled() is not False
            and self.key_dim == self.value_dim
            and (self.dropout == 0 or training is False)
            # Others are lengths that only the run knows. cuDNN's gradients need even ones.
            and all(isinstance(length, int) for length in lengths)
            and all(length >= FUSED_LENGTH and length % 2 == 0 for length in lengths)
        )

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
        shape = self._scores_shape(query, value, key)
        mask_axes("attention_mask", attention_mask, shape)
        output = keras.KerasTensor(query.shape, self.compute_dtype)
        return (output, keras.KerasTensor(shape, "float32")) if return_attention_scores else output

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "attention_window": self.attention_window,
            "initial_gain": self.initial_gain,
            "seed": self.seed,
        }

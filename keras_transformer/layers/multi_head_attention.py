"""Multi-head attention. Axes: batch, heads, target, source, dim, beams, length (of a cache)."""

import functools
import itertools
import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_vectors, known_width
from keras_transformer.errors import UserInputError, refuse
from keras_transformer.layers.attention_masks import (
    MASKED_LOGIT,
    all_of,
    as_attention_mask,
    as_row_mask,
    as_source_mask,
    causal_mask,
    for_every_head,
    mask_axes,
    zero_hidden_rows,
)
from keras_transformer.layers.composite_layer import RematerializedLayer
from keras_transformer.layers.dense import Dense, Dropout, KernelLayer, SideBySide, sizes
from keras_transformer.layers.key_value_cache import KeyValueCache, start_history
from keras_transformer.layers.positions import positions_in_attention
from keras_transformer.layers.windowed_attention import Window, attend_in_blocks
from keras_transformer.types import Shape, Tensor

# Fused attention pays off from one kernel block; shorter sequences are padded to one block.
FUSED_LENGTH = 128
_OPTIONS = "options"  # stored next to the weights in a file
SELF_ATTENTION = "self-attention, without `value`"
TO_VALUE = "attention to `value`"
TO_VALUE_BY_KEY = "attention to `value` with a separate `key`"


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(KernelLayer):
    """Multi-head scaled dot-product attention.

    Self-attention (no `value`) projects queries, keys and values with one fused matrix. Attention
    to another sequence fuses keys and values unless `key` is given. Each part of a fused matrix or
    bias is initialized as if it were separate. A layer is built for the arguments of its first call
    (only `query`, `query` and `value`, or all three). Later calls must pass the same arguments.

    Long sequences use `keras.ops.dot_product_attention`. If the backend has a fused kernel for the
    device and dtype (on JAX, cuDNN's flash attention for float16 and bfloat16), the weights of all
    position pairs are never stored in memory. This requires that both sides have an even number of
    positions (at least 128), known when the call is traced, that `key_dim` equals `value_dim`, and
    that attention dropout is inactive, because fused kernels do not support dropout. Therefore,
    training with `dropout` above 0 and calls that return the scores do not use fused kernels. To
    disable them, call `keras.config.disable_flash_attention()`.

    With `attention_window=r` (the paper's restricted self-attention), a position sees itself and
    the (r - 1) / 2 positions on each side or, under a causal mask, itself and the r - 1 positions
    before it. Time and memory are then proportional to the length times r, because attention is
    computed in blocks. This does not apply to calls that return the scores (0 outside the window),
    masks with a row for each position, or sequences barely longer than the window.

    If its entire window or the entire source is masked, a position attends to nothing: its
    attention weights, its sum of values and its gradient are 0.

    With `positions="rotary"`, self-attention rotates queries and keys by angles that grow with the
    position. Nothing is added to the token vectors.

    With `qk_norm=True`, the queries and keys of each head are divided by their root mean square and
    scaled by learned factors, one for each of the `key_dim` features. This prevents large
    projections from producing large logits.

    Args:
        num_heads: number of heads.
        key_dim: size of a head's queries and keys, independent of the input size.
        value_dim: size of a head's values. Defaults to `key_dim`.
        dropout: dropout rate for the attention weights.
        use_bias: whether the projections have biases (not used in the paper).
        attention_window: odd number of positions that each position attends to in self-attention,
            including itself; None means all positions.
        positions: type of positions in self-attention: "rotary", or your own (see
            `keras_transformer.layers.positions.PositionsInAttention`); None means no positions.
        qk_norm: whether queries and keys are normalized.
        kernel_initializer: initializer for the projection matrices.
        bias_initializer: initializer for the projection biases.
        kernel_regularizer, bias_regularizer: regularizers for the projections, as in
            `keras.layers.Dense`; a fused matrix counts as one.
        kernel_constraint, bias_constraint: constraints for the projections; a fused matrix counts
            as one.
        initial_gain: factor for the initial value and output matrices, as in DeepNorm (see
            `ResidualBlock`).
        seed: integer seed for dropout; if None, Keras chooses a seed.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        query: tensor (batch, target_length, hidden_dim).
        value: tensor (batch, source_length, memory_dim) to attend to. Defaults to `query`.
        key: tensor (batch, source_length, any size) used to compute keys. Defaults to `value`.
        query_mask, value_mask, key_mask: padding masks, (batch, target_length) for the query and
            (batch, source_length) for the value and key, True at real tokens. Keras sets them for
            masked inputs. In self-attention, `query_mask` hides padding from other positions.
        attention_mask: boolean tensor, True = may attend: padding (batch, source_length), or
            attention (batch, target_length, source_length) or (batch, num_heads, target_length,
            source_length). Axes along which a mask is constant can have size 1. A rank-2 mask is
            interpreted as Keras's (target_length, source_length) if the batch size is known and
            differs from the mask's first axis. If the sizes are equal, it is interpreted as
            padding; pass (1, target_length, source_length) instead. All given masks are combined.
        return_attention_scores: whether to also return the attention weights.
        training: whether dropout is active.
        use_causal_mask: whether a position attends only to itself and earlier positions.
        mask: `query_mask`, under the name that Keras uses when `query` is the only tensor.

    Returns:
        Tensor (batch, target_length, hidden_dim) with the Keras mask of `query`. With
        `return_attention_scores`, a pair of this tensor and the attention weights before dropout,
        float32 (batch, num_heads, target_length, source_length).

    Raises:
        ValueError: an argument is invalid, an input is not of rank 3, a mask has the wrong shape,
            or a call passes different arguments than the call that built the layer.

    Example:
        >>> import numpy as np
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> tuple(layer(np.ones((1, 5, 8), "float32")).shape)
        (1, 5, 8)

    Reference: Vaswani et al. (2017), section 3.2; Su et al., "RoFormer: Enhanced Transformer with
        Rotary Position Embedding", 2021; Henry et al., "Query-Key Normalization for Transformers",
        2020, with the root mean square of Zhang and Sennrich (2019).
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
        positions: str | None = None,
        qk_norm: bool = False,
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
        super().__init__(**kwargs)
        if value_dim is None:
            self.value_dim = self.key_dim
        self._kind = positions_in_attention(positions)
        if self._kind is not None:
            self._kind.check_heads(num_heads, key_dim)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")
        self.projections: dict[str, Projection] = {}
        self._refusal: UserInputError | None = None
        self.query_norm, self.key_norm = self._add_norm("query_norm"), self._add_norm("key_norm")

    def build(
        self, query_shape: Shape, value_shape: Shape | None = None, key_shape: Shape | None = None
    ) -> None:
        hidden_dim = known_width("query", query_shape)
        key_width, value_width = self.num_heads * self.key_dim, self.num_heads * self.value_dim
        self.built_for = _kind_of(value_shape, key_shape)
        for name in ("attention_window", "positions"):
            if getattr(self, name) is not None and self.built_for != SELF_ATTENTION:
                refuse(name, "be None for attention to `value`", getattr(self, name))
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
        if self.qk_norm:
            self.query_norm.build((None, self.key_dim))
            self.key_norm.build((None, self.key_dim))
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
        lengths = ops.shape(query)[1], ops.shape(source)[1]
        query, key, value = self._project_inputs(query, value, key)
        if self._kind is not None:
            positions = ops.arange(lengths[0])
            query, key = (self._kind.transform(vectors, positions) for vectors in (query, key))
        inside = None
        if self.attention_window is not None:
            window = Window.of(self.attention_window, is_causal=use_causal_mask)
            if pairs is not None and pairs.shape[2] == 1 and pairs.shape[3] != 1:
                columns, pairs = all_of(columns, pairs), None
            needs_pairs = return_attention_scores or pairs is not None
            if not needs_pairs and window.pays_in_blocks(lengths[0]):
                attend = functools.partial(self._attend, training=training)
                context = attend_in_blocks(
                    query, key, value, window, columns, rows, attend, self._bias
                )
                return self._merge_heads(context)
            inside = for_every_head(window.band(lengths[0]))
        elif use_causal_mask:
            inside = for_every_head(causal_mask(*lengths))
        given = all_of(columns, pairs, rows)
        allowed = all_of(given, inside)
        bias = None if self._kind is None else self._bias(positions, positions)
        if bias is None and not return_attention_scores and self._can_fuse(query, key, training):
            context = fused_attention(query, key, value, allowed)
        else:
            context, scores = self._attend(query, key, value, allowed, bias, training)
        if given is not None:
            context = zero_hidden_rows(context, allowed)
        output = self._merge_heads(context)
        if not return_attention_scores:
            return output
        return output, scores if given is None else zero_hidden_rows(scores, allowed)

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

    def project_memory(self, value: Tensor, key: Tensor = None) -> tuple[Tensor, Tensor]:
        """Compute the keys and values of a sequence once, for use in every step.

        Args:
            value: tensor (batch, source_length, memory_dim).
            key: tensor used to compute the keys, if the layer was built with `key`.

        Returns:
            keys: tensor (batch, num_heads, source_length, key_dim).
            values: tensor (batch, num_heads, source_length, value_dim).
        """
        self._check_built_for(_kind_of(value, key))
        if key is None:
            keys, values = self._split_heads(
                self.projections["key_value"](value), self.key_dim, self.value_dim
            )
        else:
            (keys,) = self._split_heads(self.projections["key"](key), self.key_dim)
            (values,) = self._split_heads(self.projections["value"](value), self.value_dim)
        return self.key_norm(keys) if self.qk_norm else keys, values

    def attend_memory(
        self, query: Tensor, memory: tuple[Tensor, Tensor], mask: Tensor = None
    ) -> Tensor:
        """Attend from several positions (or beams) to projected memory, for stepwise decoding.

        Args:
            query: tensor (batch, beams, hidden_dim).
            memory: keys and values from `project_memory`, shared by all beams.
            mask: boolean tensor (batch, source_length) or (batch, beams, source_length), or None.

        Returns:
            Tensor (batch, beams, hidden_dim).
        """
        mask = as_attention_mask("mask", mask)
        context, _ = self._attend(self._project_query(query), *memory, mask)
        return self._merge_heads(context if mask is None else zero_hidden_rows(context, mask))

    def start_cache(
        self, batch_size: Tensor, beam_size: Tensor, length: Tensor, *, grows: bool = False
    ) -> KeyValueCache:
        """Create an empty cache for `step`.

        Args:
            batch_size, beam_size, length: ints or scalar tensors; `length` is the number of
                positions that fit in the cache.
            grows: whether the cache grows with each step instead, starting with `length` 0.

        Returns:
            A `KeyValueCache` with keys (batch, num_heads, length, beams, key_dim) and values
            (batch, num_heads, length, beams, value_dim).
        """
        shape = (batch_size, self.num_heads, beam_size)
        keys, values = (
            start_history((*shape, dim), length, self.compute_dtype, grows=grows)
            for dim in (self.key_dim, self.value_dim)
        )
        return KeyValueCache(keys, values)

    def step(
        self, query: Tensor, cache: KeyValueCache, index: Tensor, mask: Tensor | None = None
    ) -> tuple[Tensor, KeyValueCache]:
        """Apply causal self-attention at one position for every beam.

        Args:
            query: tensor (batch, beams, hidden_dim), the inputs at position `index`.
            cache: keys and values of earlier positions, created by `start_cache`, or by
                `start_cache(batch * beams, 1)` if no beam attends to another beam's entries.
            index: scalar integer tensor, the zero-based position.
            mask: boolean tensor (batch, beams, length * beams) for the cache entries, from
                `ancestor_mask`. If None, each beam attends to the entries that it wrote itself.

        Returns:
            output: tensor (batch, beams, hidden_dim).
            cache: the given cache, updated with position `index`. With `attention_window`, a
                growing cache keeps only that many positions.
        """
        self._check_built_for(SELF_ATTENTION)
        rows, _, _, beams, _ = ops.shape(cache.keys.values)
        inputs = query
        if query.shape[1] is None or query.shape[1] != beams:  # each beam has its own row
            inputs = ops.reshape(query, (rows, beams, query.shape[-1]))
        new_query, key, value = self._project_inputs(inputs)  # (rows, heads, beams, dim)
        kind, window, position = self._kind, self.attention_window, ops.reshape(index, (1,))
        if kind is not None:
            new_query, key = (kind.transform(vectors, position) for vectors in (new_query, key))
        cache = cache.write(key, value, index)
        bias = None if kind is None else self._bias(position, cache.positions(index, window))
        cache, keys, values, mask = cache.read(index, mask, window)
        context, _ = self._attend(new_query, keys, values, for_every_head(mask), bias=bias)
        return ops.reshape(self._merge_heads(context), sizes(query)), cache

    def save_own_variables(self, store: Any) -> None:
        """Save the weights of all projections and options not apparent from their shapes."""
        values = [v for projection in self.projections.values() for v in _saved_values(projection)]
        for number, value in enumerate(values):
            store[str(number)] = value
        store[_OPTIONS] = np.frombuffer(json.dumps(self._options()).encode(), "uint8")

    def load_own_variables(self, store: Any) -> None:
        """Load the weights from `save_own_variables`. Files from earlier versions lack options.

        Raises:
            ValueError: the weights are from a layer with different options, or the number of
                weights is wrong.
        """
        weights = {name: store[name] for name in store.keys()}  # noqa: SIM118
        # Keras tries every name that a model uses for the layer; the file contains one of them.
        if weights:
            self._refusal = self._compare_options(weights.pop(_OPTIONS, None))
        if self._refusal:
            raise self._refusal
        numbers = [range(len(_saved_values(each))) for each in self.projections.values()]
        if len(weights) != sum(map(len, numbers)):
            raise ValueError(
                f"The weights of `{self.name}` must be {sum(map(len, numbers))}. "
                f"Received: {len(weights)}"
            )
        in_order = iter(weights[str(number)] for number in range(len(weights)))
        parts = [{str(number): next(in_order) for number in of_part} for of_part in numbers]
        for projection, values in zip(self.projections.values(), parts, strict=True):
            Dense.load_own_variables(projection, values)

    def _options(self) -> dict[str, Any]:
        config = self.get_config()
        return {name: config[name] for name in ("num_heads", "attention_window", "positions")}

    def _compare_options(self, written: Any) -> UserInputError | None:
        """Return an error if a file's options differ. `written` is bytes from the file or None."""
        own = self._options()
        theirs = own if written is None else json.loads(np.asarray(written).tobytes())
        for name, value in own.items():
            if theirs.get(name) != value:
                return UserInputError(
                    f"`{name}` must be {theirs.get(name)!r}, as in the layer that the weights are "
                    f"from. Received: {name}={value!r}, layer={self.name!r}"
                )
        return None

    def _add_norm(self, name: str) -> Any:
        if not self.qk_norm:
            return None
        return HeadNormalization(dtype=self.dtype_policy, name=name)

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
            **self.kernel_options(output_widths, gains)
            | {"bias_initializer": SideBySide(self.bias_initializer, output_widths)},
            dtype=self.dtype_policy,
            name=name,
        )
        projection.build((None, input_width))
        projection.kernel.side_by_side = tuple(output_widths)  # for `optimizers.Muon`
        self.projections[name] = projection

    def _scores_shape(self, query: Tensor, value: Tensor, key: Tensor) -> Shape:
        """Return the attention shape (batch, heads, target, source). Check the arguments."""
        self._check_built_for(_kind_of(value, key))
        for name, tensor in (("query", query), ("value", value), ("key", key)):
            if tensor is not None:
                check_vectors(name, tensor.shape)
        source = query if value is None else value
        return query.shape[0], self.num_heads, query.shape[1], source.shape[1]

    def _can_fuse(self, query: Tensor, key: Tensor, training: bool | None) -> bool:
        lengths = query.shape[-2], key.shape[-2]
        return (
            keras.config.is_flash_attention_enabled() is not False
            and self.attention_window is None
            and self.key_dim == self.value_dim
            and (self.dropout == 0 or training is False)
            # Other lengths are known only at run time. cuDNN's gradients require even lengths.
            and all(isinstance(length, int) for length in lengths)
            and all(length >= FUSED_LENGTH and length % 2 == 0 for length in lengths)
        )

    def _check_built_for(self, kind: str) -> None:
        if self.built and kind != self.built_for:
            raise ValueError(
                f"`{self.name}` was built for {self.built_for}; this cannot change. "
                f"Received: a call for {kind}"
            )

    def _project_inputs(
        self, query: Tensor, value: Tensor = None, key: Tensor = None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Project the call arguments to queries, keys and values (..., heads, length, dim)."""
        if value is not None:
            return (self._project_query(query), *self.project_memory(value, key))
        query, key, value = self._split_heads(
            self.projections["query_key_value"](query), self.key_dim, self.key_dim, self.value_dim
        )
        if self.qk_norm:
            query, key = self.query_norm(query), self.key_norm(key)
        return query, key, value

    def _project_query(self, query: Tensor) -> Tensor:
        """Project queries (..., heads, length, key_dim) for attention to another sequence."""
        (query,) = self._split_heads(self.projections["query"](query), self.key_dim)
        return self.query_norm(query) if self.qk_norm else query

    def _bias(self, targets: Tensor, sources: Tensor) -> Tensor | None:
        """Return the bias for the logits of these positions, (heads, target, source), or None."""
        return self._kind and self._kind.bias(self.num_heads, targets, sources)

    def _split_heads(self, projected: Tensor, *dims: int) -> tuple[Tensor, ...]:
        """Split (..., length, heads * (dim + ...)) into one (..., heads, length, dim) per dim."""
        ends = [self.num_heads * end for end in itertools.accumulate(dims)]
        parts = ops.split(projected, ends[:-1], axis=-1) if len(dims) > 1 else [projected]
        *leading, length, _ = sizes(projected)
        is_single = projected.shape[-2] == 1  # then there is nothing to transpose
        axes = (self.num_heads, length) if is_single else (length, self.num_heads)
        heads = [
            ops.reshape(part, (*leading, *axes, dim)) for part, dim in zip(parts, dims, strict=True)
        ]
        return tuple(heads if is_single else [ops.swapaxes(part, -3, -2) for part in heads])

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor,
        bias: Tensor | None = None,
        training: bool | None = False,
    ) -> tuple[Tensor, Tensor]:
        """Return attended values (..., target, dim) and weights (..., target, source) per head."""
        scores = attention_weights(query, key, mask, bias, training)
        weights = self.dropout_layer(ops.cast(scores, value.dtype), training=training)
        return ops.matmul(weights, value), scores

    def _merge_heads(self, context: Tensor) -> Tensor:
        """Compute the layer's output (..., target, hidden_dim) from each head's attended values."""
        outputs = context if context.shape[-2] == 1 else ops.swapaxes(context, -3, -2)
        *leading, heads, length, _ = sizes(context)
        outputs = ops.reshape(outputs, (*leading, length, heads * self.value_dim))
        return self.projections["output"](outputs)


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
    training: bool | None = False,
) -> Tensor:
    """Compute the softmax of the scaled products of queries and keys, in float32.

    Args:
        query: tensor (..., target, dim).
        key: tensor (..., source, dim).
        mask: boolean tensor that broadcasts to (..., target, source), or None.
        bias: float32 tensor that broadcasts to (..., target, source), added to the logits, or None.
        training: on JAX, whether the gradient keeps only the result, in which case forward mode is
            not supported.

    Returns:
        float32 tensor (..., target, source); each row sums to 1. A fully masked row is uniform;
        see `zero_hidden_rows`.

    Reference: Vaswani et al. (2017), equation 1.
    """
    scale = 1.0 / math.sqrt(query.shape[-1])
    logits = ops.matmul(query * ops.cast(scale, query.dtype), ops.swapaxes(key, -1, -2))
    logits = ops.cast(logits, "float32")  # (..., target, source)
    if bias is not None:
        logits = logits + bias
    if mask is not None:
        logits = ops.where(mask, logits, MASKED_LOGIT)
    if logits.shape[-1] == 1:
        return ops.ones_like(logits)  # the result of softmax, without Keras's warning
    if training and keras.backend.backend() == "jax":
        return frugal_softmax(logits)
    return ops.softmax(logits, axis=-1)


def frugal_softmax(logits: Tensor) -> Tensor:
    """`keras.ops.softmax` over the last axis, with a gradient that keeps only the result.

    TensorFlow and PyTorch already do this; JAX also keeps the exponentials. Forward mode, such as
    `jax.jvp`, is not supported.

    Args:
        logits: float tensor (..., source).

    Returns:
        Tensor with the shape and dtype of `logits`; each row sums to 1.
    """

    @ops.custom_gradient
    def weights(logits: Tensor) -> tuple[Tensor, Callable[..., Tensor]]:
        result = ops.softmax(logits, axis=-1)

        def gradient(upstream: Tensor) -> Tensor:
            return result * (upstream - ops.sum(upstream * result, axis=-1, keepdims=True))

        return result, gradient

    return weights(logits)


def fused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Compute the attended values with Keras's own operation, using a fused kernel if available.

    Args:
        query: tensor (batch, heads, target, dim).
        key: tensor (batch, heads, source, dim).
        value: tensor (batch, heads, source, dim).
        mask: boolean tensor that broadcasts to (batch, 1, target, source), or None. A row with no
            True attends to everything, as kernels would otherwise overflow. See `zero_hidden_rows`.

    Returns:
        Tensor (batch, heads, target, dim).
    """
    if mask is not None:
        mask = ops.logical_or(mask, ops.logical_not(ops.any(mask, axis=-1, keepdims=True)))
        # cuDNN does not broadcast these two axes (jax-ml/jax#28974).
        mask = ops.logical_and(mask, ops.ones((query.shape[-2], key.shape[-2]), "bool"))
    query, key, value = (ops.swapaxes(tensor, 1, 2) for tensor in (query, key, value))
    return ops.swapaxes(ops.dot_product_attention(query, key, value, mask=mask), 1, 2)


class HeadNormalization(RematerializedLayer, keras.layers.RMSNormalization):
    """Keras's RMS normalization, applied to the queries or keys of each head."""


class Projection(Dense):
    """An attention projection with weights that the attention layer saves and loads."""

    def save_own_variables(self, store: Any) -> None:
        """Save nothing."""

    def load_own_variables(self, store: Any) -> None:
        """Load nothing."""


def _saved_values(projection: Projection) -> list[Any]:
    """Return the values that a file stores for a projection, with LoRA adapters merged."""
    values: dict[str, Any] = {}
    Dense.save_own_variables(projection, values)
    return list(values.values())


def _kind_of(value: Any, key: Any) -> str:
    """Return the type of attention for the given call arguments or their shapes."""
    if value is None and key is not None:
        raise ValueError("`value` must be given with `key`. Received: only `key`")
    if value is None:
        return SELF_ATTENTION
    return TO_VALUE if key is None else TO_VALUE_BY_KEY

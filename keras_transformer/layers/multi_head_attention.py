"""Multi-head attention. Axes: batch, heads, target, source, dim, beams, length (of a cache)."""

import keras
from keras import ops

from keras_transformer.argument_checks import check_positive_int, check_rate
from keras_transformer.layers.attention import FUSED_LENGTH, attention_weights, fused_attention
from keras_transformer.layers.bias_addition import add_bias


def _for_every_head(mask):
    """A mask (..., target, source) as (..., 1, target, source); (source,) and None stay."""
    return mask if mask is None or len(mask.shape) < 2 else ops.expand_dims(mask, -3)


class _SideBySide(keras.initializers.Initializer):
    """Draws each part of a fused matrix as a matrix of its own: else it has the wrong scale."""

    def __init__(self, widths, seed=None):
        self.widths = tuple(widths)
        self.seed = seed

    def __call__(self, shape, dtype=None):
        parts = [
            keras.initializers.GlorotUniform(seed=self.seed)((shape[0], width), dtype=dtype)
            for width in self.widths
        ]
        return ops.concatenate(parts, axis=1)


@keras.saving.register_keras_serializable(package="keras_transformer")
class MultiHeadAttention(keras.layers.Layer):
    """Scaled dot-product attention in several heads.

    Self-attention (no `value`) projects queries, keys and values with one fused matrix,
    attention to another sequence projects keys and values with one. Each part of a fused matrix is
    initialised (Glorot uniform) as the separate matrix it stands for.

    Long sequences, 512 positions and more, are attended to by `keras.ops.dot_product_attention`,
    which never holds the weights of all pairs of positions where the backend has a fused kernel for
    the device and the dtype (on JAX: cuDNN's flash attention, float16 and bfloat16). That is done
    where lengths are known when the call is traced, `key_dim` equals `value_dim`, and attention
    dropout is not active: fused kernels have no dropout. So a training with `dropout` above 0 does
    not get them. `keras.config.disable_flash_attention()` switches them off.

    Args:
        num_heads: number of heads.
        key_dim: size of a head's queries and keys, free of the input's size.
        value_dim: size of a head's values; `key_dim` if None.
        use_bias: whether the projections have biases (the paper's have none).
        dropout: rate of dropout on the attention weights.

    Call arguments:
        query: tensor (batch, target_length, hidden_dim).
        value: tensor (batch, source_length, memory_dim) to attend to; None: `query` itself.
        mask: boolean tensor that broadcasts to (batch, target_length, source_length),
            True = may attend; None: everything may.
        training: whether dropout is active.

    Returns:
        Tensor (batch, target_length, hidden_dim).

    Raises:
        ValueError: a size is no positive integer, or `dropout` is outside [0, 1).

    Example:
        >>> import numpy as np
        >>> layer = MultiHeadAttention(num_heads=2, key_dim=4)
        >>> tuple(layer(np.ones((1, 5, 8), "float32")).shape)
        (1, 5, 8)

    Reference: Vaswani et al. (2017), section 3.2.
    """

    def __init__(self, num_heads, key_dim, value_dim=None, use_bias=False, dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        value_dim = key_dim if value_dim is None else value_dim
        check_positive_int("num_heads", num_heads)
        check_positive_int("key_dim", key_dim)
        check_positive_int("value_dim", value_dim)
        check_rate("dropout", dropout)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.use_bias = use_bias
        self.dropout = dropout
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, query_shape, value_shape=None):
        hidden_dim = query_shape[-1]
        query_width = self.num_heads * self.key_dim
        memory_widths = (query_width, self.num_heads * self.value_dim)
        self.is_self_attention = value_shape is None
        if self.is_self_attention:
            self._add_projection("query_key_value", hidden_dim, (query_width, *memory_widths))
        else:
            self._add_projection("query", hidden_dim, (query_width,))
            self._add_projection("key_value", value_shape[-1], memory_widths)
        self._add_projection("output", memory_widths[1], (hidden_dim,))

    def _add_projection(self, name, input_width, output_widths):
        kernel = self.add_weight(
            shape=(input_width, sum(output_widths)),
            initializer=_SideBySide(output_widths),
            name=f"{name}_kernel",
        )
        bias = None
        if self.use_bias:
            bias = self.add_weight(
                shape=(sum(output_widths),), initializer="zeros", name=f"{name}_bias"
            )
        setattr(self, f"{name}_kernel", kernel)
        setattr(self, f"{name}_bias", bias)

    def call(self, query, value=None, mask=None, training=None):
        query, key, value = self._project_inputs(query, value)
        if self._can_fuse(query, key, training):
            context = fused_attention(query, key, value, _for_every_head(mask))
            return self._project(self._merge_heads(context), "output")
        return self._attend_projected(query, key, value, mask, training)[0]

    def attend(self, query, value=None, mask=None, training=None):
        """Attention with its weights; the call arguments are those of the layer.

        Returns:
            output: tensor (batch, target_length, hidden_dim).
            scores: attention weights before dropout, float32
                (batch, num_heads, target_length, source_length).
        """
        return self._attend_projected(*self._project_inputs(query, value), mask, training)

    def project_memory(self, value):
        """Keys and values of a sequence to attend to, computed once and used at every step.

        Args:
            value: tensor (batch, source_length, memory_dim).

        Returns:
            keys: tensor (batch, num_heads, source_length, key_dim).
            values: tensor (batch, num_heads, source_length, value_dim).
        """
        self._check_built_for(self_attention=False)
        projected = self._project(value, "key_value")
        width = self.num_heads * self.key_dim
        return (
            self._split_heads(projected[..., :width], self.key_dim),
            self._split_heads(projected[..., width:], self.value_dim),
        )

    def attend_memory(self, query, memory, mask=None):
        """Attention of some positions (or beams) to projected memory, for stepwise decoding.

        Args:
            query: tensor (batch, beams, hidden_dim).
            memory: keys and values that `project_memory` returned; shared by all beams.
            mask: boolean tensor that broadcasts to (batch, beams, source_length), or None.

        Returns:
            Tensor (batch, beams, hidden_dim).
        """
        return self._attend_projected(self._project_query(query), *memory, mask, False)[0]

    def start_cache(self, batch_size, beam_size, length):
        """An empty cache for `step`.

        Args:
            batch_size, beam_size, length: ints or scalar tensors; `length` is the number of
                positions there is room for.

        Returns:
            keys: zeros (batch, beams, num_heads, length, key_dim).
            values: zeros (batch, beams, num_heads, length, value_dim).
        """
        shape = (batch_size, beam_size, self.num_heads, length)
        return (
            ops.zeros((*shape, self.key_dim), dtype=self.compute_dtype),
            ops.zeros((*shape, self.value_dim), dtype=self.compute_dtype),
        )

    def step(self, query, cache, index):
        """Causal self-attention of one position of every beam.

        Args:
            query: tensor (batch, beams, hidden_dim), the inputs at position `index`.
            cache: keys and values of the positions before, as from `start_cache`.
            index: scalar integer tensor, counted from 0.

        Returns:
            output: tensor (batch, beams, hidden_dim).
            cache: the given one with position `index` filled.
        """
        rows = ops.expand_dims(query, 2)  # (batch, beams, 1, hidden)
        query, key, value = self._project_self(rows)  # (batch, beams, heads, 1, dim)
        keys, values = cache  # (batch, beams, heads, length, dim)
        positions = ops.arange(ops.shape(keys)[3])
        is_new = ops.expand_dims(ops.equal(positions, index), 1)  # (length, 1)
        keys = ops.where(is_new, key, keys)
        values = ops.where(is_new, value, values)
        output, _ = self._attend_projected(
            query, keys, values, ops.less_equal(positions, index), False
        )
        return ops.squeeze(output, 2), (keys, values)

    def _can_fuse(self, query, key, training):
        lengths = query.shape[-2], key.shape[-2]
        return (
            keras.config.is_flash_attention_enabled() is not False
            and self.key_dim == self.value_dim
            and (self.dropout == 0 or training is False)
            # None is a length that only the run knows. cuDNN's gradients need even ones.
            and all(length and length >= FUSED_LENGTH and length % 2 == 0 for length in lengths)
        )

    def _check_built_for(self, self_attention):
        if self.is_self_attention != self_attention:
            built_for = "self-attention" if self.is_self_attention else "attention to `value`"
            raise ValueError(
                f"`{self.name}` was built for {built_for} and keeps to it: call it "
                f"{'without' if self.is_self_attention else 'with'} `value`."
            )

    def _project(self, inputs, name):
        # Keras casts inputs and weights in `call` alone; steps must compute in the same dtype.
        inputs = ops.cast(inputs, self.compute_dtype)
        outputs = ops.matmul(inputs, ops.cast(getattr(self, f"{name}_kernel"), self.compute_dtype))
        bias = getattr(self, f"{name}_bias")
        return outputs if bias is None else add_bias(outputs, bias)

    def _project_inputs(self, query, value):
        """Queries, keys and values (batch, heads, length, dim) of the call arguments."""
        if value is None:
            return self._project_self(query)
        return self._project_query(query), *self.project_memory(value)

    def _project_query(self, query):
        self._check_built_for(self_attention=False)
        return self._split_heads(self._project(query, "query"), self.key_dim)

    def _project_self(self, inputs):
        self._check_built_for(self_attention=True)
        projected = self._project(inputs, "query_key_value")
        width = self.num_heads * self.key_dim
        return (
            self._split_heads(projected[..., :width], self.key_dim),
            self._split_heads(projected[..., width : 2 * width], self.key_dim),
            self._split_heads(projected[..., 2 * width :], self.value_dim),
        )

    def _split_heads(self, inputs, dim):
        """(..., length, heads * dim) to (..., heads, length, dim)."""
        outputs = ops.reshape(inputs, (*ops.shape(inputs)[:-1], self.num_heads, dim))
        return ops.swapaxes(outputs, -3, -2)

    def _merge_heads(self, inputs):
        """(..., heads, length, dim) to (..., length, heads * dim)."""
        outputs = ops.swapaxes(inputs, -3, -2)
        width = self.num_heads * self.value_dim
        return ops.reshape(outputs, (*ops.shape(outputs)[:-2], width))

    def _attend_projected(self, query, key, value, mask, training):
        # (..., heads, target, source)
        scores = attention_weights(query, key, _for_every_head(mask))
        weights = self.dropout_layer(ops.cast(scores, value.dtype), training=training)
        context = self._merge_heads(ops.matmul(weights, value))  # (..., target, heads * dim)
        return self._project(context, "output"), scores

    def compute_mask(self, inputs, previous_mask):
        return None  # `mask` says what may be attended to: it is no Keras mask of the output

    def compute_output_shape(self, query_shape, value_shape=None):
        return tuple(query_shape)

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "use_bias": self.use_bias,
            "dropout": self.dropout,
        }

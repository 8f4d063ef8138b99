"""Transformer encoder and decoder layers."""

import functools
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import check_one_of, check_vectors, known_width
from keras_transformer.errors import OUR_CALL_KEYWORDS, refuse, refuse_keywords
from keras_transformer.layers.attention_masks import PADDING, as_attention_mask, mask_axes
from keras_transformer.layers.composite_layer import part_seeds
from keras_transformer.layers.dense import KernelLayer
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.positions import positions_in_attention
from keras_transformer.layers.sublayers import SSRU, FeedForward, ResidualBlock
from keras_transformer.types import DECODER_UNITS, LAYER_NORM_EPSILON, Shape, Tensor

_MOST_PARTS = 6  # parts with dropout


class TransformerLayer(KernelLayer):
    """Base class with the options of `TransformerEncoderLayer` and `TransformerDecoderLayer`."""

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        *,
        key_dim: int | None = None,
        value_dim: int | None = None,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        activation_dropout: float = 0.0,
        activation: Any = "relu",
        layer_norm_epsilon: float = LAYER_NORM_EPSILON,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        bias_regularizer: Any = None,
        kernel_constraint: Any = None,
        bias_constraint: Any = None,
        normalize_first: bool = False,
        use_bias: bool = False,
        attention_window: int | None = None,
        positions: str | None = None,
        qk_norm: bool = False,
        residual_scale: float = 1.0,
        initial_gain: float = 1.0,
        b2t_connection: bool = False,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        positions_in_attention(positions)  # checks the name
        if b2t_connection and normalize_first:
            rule = "be False with `normalize_first`, because it is only for post-norm"
            refuse("b2t_connection", rule, b2t_connection, normalize_first=normalize_first)
        self._seeds = iter(part_seeds(self.seed, _MOST_PARTS))
        self.feed_forward = FeedForward(
            intermediate_dim,
            dropout=activation_dropout,
            activation=self.activation,
            **self.kernel_options(),
            initial_gain=initial_gain,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward_block = self.create_block("feed_forward_block")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refuse_keywords(type(self).__name__, kwargs, OUR_CALL_KEYWORDS)
        return super().__call__(*args, **kwargs)

    def create_attention(
        self, name: str, inputs_shape: Shape, *, to_itself: bool = True
    ) -> MultiHeadAttention:
        """Create a `MultiHeadAttention` with the layer's options for inputs of the given shape."""
        hidden_dim = known_width("inputs", inputs_shape)
        if self.key_dim is None and hidden_dim % self.num_heads:
            rule = "divide the width of the inputs if `key_dim` is None"
            refuse("num_heads", rule, self.num_heads, width=hidden_dim)
        return MultiHeadAttention(
            self.num_heads,
            hidden_dim // self.num_heads if self.key_dim is None else self.key_dim,
            value_dim=self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            qk_norm=self.qk_norm,
            attention_window=self.attention_window if to_itself else None,
            positions=self.positions if to_itself else None,
            **self.kernel_options(),
            initial_gain=self.initial_gain,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name=name,
        )

    def create_block(self, name: str) -> ResidualBlock:
        """Create a `ResidualBlock` with the layer's options."""
        return ResidualBlock(
            dropout=self.dropout,
            normalize_first=self.normalize_first,
            layer_norm_epsilon=self.layer_norm_epsilon,
            scale=self.residual_scale,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name=name,
        )

    def build_parts(self, inputs_shape: Shape, *parts: keras.layers.Layer) -> None:
        """Build the given parts and the feed-forward network. Call this at the end of `build`."""
        for part in (*parts, self.feed_forward, self.feed_forward_block):
            part.build(inputs_shape)
        self.finish_build()

    def in_block(
        self,
        block: ResidualBlock,
        inputs: Tensor,
        sublayer: Callable[[Tensor], Any],
        training: bool | None,
        shortcut: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Apply a sublayer in its residual block. Also return its second return value, or None."""
        outputs = sublayer(block.enter(inputs))
        outputs, other = outputs if isinstance(outputs, tuple) else (outputs, None)
        return block(inputs, outputs, shortcut, training=training), other

    def feed(self, hidden: Tensor, inputs: Tensor, training: bool | None = None) -> Tensor:
        """Apply the feed-forward network in its residual block at the end of the layer.

        Args:
            hidden: tensor (batch, length, hidden_dim), the outputs of the attention.
            inputs: tensor of the same shape, the inputs of the layer.
            training: whether dropout is active.
        """
        return self.in_block(
            self.feed_forward_block,
            hidden,
            lambda x: self.feed_forward(x, training=training),
            training,
            inputs if self.b2t_connection else None,
        )[0]

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor) -> Tensor:
        # Symbolic calls use this method. In other calls, the parts propagate the inputs' mask. The
        # previous mask is the `mask` argument, which may be an attention mask.
        own_mask = getattr(inputs, "_keras_mask", None)
        if own_mask is not None or previous_mask is None:
            return own_mask
        axes = mask_axes("mask", previous_mask, self.scores_shape(inputs))
        return previous_mask if axes == PADDING else None

    def scores_shape(self, inputs: Tensor, memory: Tensor = None) -> Shape:
        """Return the shape of the scores for `memory` or for self-attention; check the ranks."""
        source = inputs if memory is None else memory
        check_vectors("inputs", inputs.shape)
        check_vectors("memory", source.shape)
        return inputs.shape[0], self.num_heads, inputs.shape[1], source.shape[1]


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerEncoderLayer(TransformerLayer):
    """Self-attention and a feed-forward network, each in a residual block.

    Args:
        intermediate_dim: inner size of the feed-forward network.
        num_heads: number of attention heads.
        key_dim: size of a head's queries and keys. Defaults to the input width / `num_heads`.
        value_dim: size of a head's values. Defaults to the size of its keys.
        dropout: dropout rate for the output of each sublayer.
        attention_dropout: dropout rate for the attention weights.
        activation_dropout: dropout rate for the activations of the feed-forward network.
        activation: activation of the feed-forward network: a Keras activation or its name, such as
            "relu" or "gelu".
        layer_norm_epsilon: number added to the variance in layer normalization.
        kernel_initializer: initializer for all matrices.
        bias_initializer: initializer for all biases.
        kernel_regularizer, bias_regularizer: regularizers for all matrices and all biases, as in
            `keras.layers.Dense`; a fused attention matrix counts as one.
        kernel_constraint, bias_constraint: constraints for all matrices and all biases.
        normalize_first: whether to use pre-norm instead of the paper's post-norm. A stack of
            pre-norm layers must be followed by a `keras.layers.LayerNormalization`.
        use_bias: whether the attention projections have biases.
        attention_window: odd number of positions that each position attends to in self-attention,
            including itself, as in `MultiHeadAttention`; None means all positions.
        positions: type of positions in self-attention, such as "rotary", as in
            `MultiHeadAttention`; None means no positions.
        qk_norm: whether attention normalizes its queries and keys, as in `MultiHeadAttention`.
        residual_scale: factor for each sublayer's inputs in the sum with its outputs.
        initial_gain: factor for the initial matrices of the feed-forward network and for the value
            and output matrices in attention. DeepNorm also sets `residual_scale`; see
            `ResidualBlock`.
        b2t_connection: whether the layer's inputs are also added before the layer's last
            normalization (post-norm only), to preserve more of each token's identity.
        seed: integer from which all dropout seeds are derived; if None, Keras chooses them.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, length, hidden_dim).
        mask: boolean tensor, True = may be attended to: padding (batch, length), or attention
            (batch, length, length) or (batch, num_heads, length, length), as for `attention_mask`
            of `MultiHeadAttention`. It is combined with the inputs' Keras mask, such as the mask
            from `keras.layers.Embedding(mask_zero=True)`. If None, only the Keras mask applies.
        return_attention_scores: whether to also return the attention weights.
        training: whether dropout is active.
        use_causal_mask: whether a position attends only to itself and earlier positions.

    Returns:
        Tensor (batch, length, hidden_dim) with the inputs' Keras mask. With
        `return_attention_scores`, a pair of this tensor and the attention weights before dropout,
        float32 (batch, num_heads, length, length).

    Raises:
        ValueError: an argument is invalid, `inputs` is not of rank 3, or `mask` has the wrong
            shape.

    Example:
        >>> import numpy as np
        >>> layer = TransformerEncoderLayer(intermediate_dim=16, num_heads=2)
        >>> tuple(layer(np.ones((1, 3, 8), "float32")).shape)
        (1, 3, 8)

    Reference: Vaswani et al. (2017), section 3.1. B2T: Takase et al., "B2T Connection: Serving
        Stability and Performance in Deep Transformers", 2023.
    """

    def build(self, inputs_shape: Shape) -> None:
        self.attention = self.create_attention("self_attention", inputs_shape)
        self.attention_block = self.create_block("self_attention_block")
        self.build_parts(inputs_shape, self.attention, self.attention_block)

    def call(
        self,
        inputs: Tensor,
        mask: Tensor = None,
        *,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = False,
    ) -> Tensor:
        mask = as_attention_mask("mask", mask, self.scores_shape(inputs))
        hidden, scores = self.in_block(
            self.attention_block,
            inputs,
            lambda x: self.attention(
                x,
                attention_mask=mask,
                return_attention_scores=return_attention_scores,
                training=training,
                use_causal_mask=use_causal_mask,
            ),
            training,
        )
        outputs = self.feed(hidden, inputs, training)
        return (outputs, scores) if return_attention_scores else outputs

    def compute_output_spec(
        self,
        inputs: Tensor,
        mask: Tensor = None,
        *,
        return_attention_scores: bool = False,
        **_: Any,
    ) -> Any:
        shape = self.scores_shape(inputs)
        mask_axes("mask", mask, shape)
        output = keras.KerasTensor(inputs.shape, self.compute_dtype)
        return (output, keras.KerasTensor(shape, "float32")) if return_attention_scores else output


@keras.saving.register_keras_serializable(package="keras_transformer")
class TransformerDecoderLayer(TransformerLayer):
    """Causal self-attention, cross-attention and a feed-forward network, in residual blocks.

    Without `memory`, the layer has no cross-attention and belongs in a decoder-only model, such as
    a language model. The first call determines whether the layer has cross-attention.

    `call` processes full target sequences. `step` processes one position with a cache and computes
    the same result. Padding at the end of a target row needs no mask, because earlier positions
    never see it.

    Args:
        intermediate_dim: inner size of the feed-forward network.
        num_heads: number of attention heads.
        decoder_unit: how a position accesses earlier positions: "attention" for self-attention,
            or "ssru" for a recurrent unit (see `SSRU`). `attention_window` and `positions` apply
            only to attention.
        key_dim: size of a head's queries and keys. Defaults to the input width / `num_heads`.
        value_dim: size of a head's values. Defaults to the size of its keys.
        dropout: dropout rate for the output of each sublayer.
        attention_dropout: dropout rate for the attention weights.
        activation_dropout: dropout rate for the activations of the feed-forward network.
        activation: activation of the feed-forward network: a Keras activation or its name, such as
            "relu" or "gelu".
        layer_norm_epsilon: number added to the variance in layer normalization.
        kernel_initializer: initializer for all matrices.
        bias_initializer: initializer for all biases.
        kernel_regularizer, bias_regularizer: regularizers for all matrices and all biases, as in
            `keras.layers.Dense`; a fused attention matrix counts as one.
        kernel_constraint, bias_constraint: constraints for all matrices and all biases.
        normalize_first: whether to use pre-norm instead of the paper's post-norm. A stack of
            pre-norm layers must be followed by a `keras.layers.LayerNormalization`.
        use_bias: whether the attention projections have biases.
        attention_window: odd number of positions that each position attends to in self-attention,
            including itself, as in `MultiHeadAttention`; None means all positions.
        positions: type of positions in self-attention, such as "rotary", as in
            `MultiHeadAttention`; None means no positions.
        qk_norm: whether attention normalizes its queries and keys, as in `MultiHeadAttention`.
        residual_scale: factor for each sublayer's inputs in the sum with its outputs.
        initial_gain: factor for the initial matrices of the feed-forward network and for the value
            and output matrices in attention. DeepNorm also sets `residual_scale`; see
            `ResidualBlock`.
        b2t_connection: whether the layer's inputs are also added before the layer's last
            normalization (post-norm only), to preserve more of each token's identity.
        seed: integer from which all dropout seeds are derived; if None, Keras chooses them.
        **options: also `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        inputs: tensor (batch, target_length, hidden_dim).
        memory: tensor (batch, source_length, memory_dim), the encoder's output, or None.
        mask: mask for self-attention; boolean tensor, True = may be attended to: padding (batch,
            target_length), or attention (batch, target_length, target_length) or (batch, num_heads,
            target_length, target_length), as for `attention_mask` of `MultiHeadAttention`. It is
            combined with the causal mask and the inputs' Keras mask; if None, only those two apply.
        inputs_mask: the inputs' Keras mask, under the name that Keras uses when there is a memory.
        memory_mask: mask for cross-attention; boolean tensor: padding (batch, source_length), or
            attention (batch, target_length, source_length) or (batch, num_heads, target_length,
            source_length), as for `mask`. If None, only the memory's Keras mask applies.
        return_attention_scores: whether to also return the attention weights.
        training: whether dropout is active.
        use_causal_mask: whether a position attends only to itself and earlier positions.

    Returns:
        Tensor (batch, target_length, hidden_dim) with the inputs' Keras mask. With
        `return_attention_scores`, a tuple: this tensor; without an SSRU, the self-attention weights
        before dropout, float32 (batch, num_heads, target_length, target_length); and, with a
        memory, the cross-attention weights, float32 (batch, num_heads, target_length,
        source_length).

    Raises:
        ValueError: an argument is invalid, `inputs` or `memory` is not of rank 3, a mask has the
            wrong shape, or a layer that was built with a memory is called without one, or vice
            versa. With an SSRU, this error is also raised if `use_causal_mask` is False, `mask`
            differs between heads, or there are no attention scores to return.

    Example:
        >>> import numpy as np
        >>> x, memory = np.ones((1, 3, 8), "float32"), np.ones((1, 5, 8), "float32")
        >>> layer = TransformerDecoderLayer(intermediate_dim=16, num_heads=2)
        >>> tuple(layer(x, memory).shape)
        (1, 3, 8)
        >>> tuple(TransformerDecoderLayer(intermediate_dim=16, num_heads=2)(x).shape)
        (1, 3, 8)

    Reference: Vaswani et al. (2017), section 3.1; Radford et al. (2018) for decoder-only models;
        Takase et al. (2023) for B2T.
    """

    def __init__(
        self,
        intermediate_dim: int,
        num_heads: int,
        *,
        decoder_unit: str = "attention",
        **options: Any,
    ) -> None:
        super().__init__(intermediate_dim, num_heads, **options)
        check_one_of("decoder_unit", decoder_unit, DECODER_UNITS)

    def build(self, inputs_shape: Shape, memory_shape: Shape | None = None) -> None:
        self.self_attention: Any = None
        self.ssru: Any = None
        if self.decoder_unit == "ssru":
            unit = self.ssru = SSRU(**self.kernel_options(), dtype=self.dtype_policy, name="ssru")
        else:
            unit = self.self_attention = self.create_attention("self_attention", inputs_shape)
        self.self_attention_block = self.create_block("self_attention_block")
        self.cross_attention: Any = None
        if memory_shape is not None:
            self.cross_attention = self.create_attention(
                "cross_attention", inputs_shape, to_itself=False
            )
            self.cross_attention_block = self.create_block("cross_attention_block")
            self.cross_attention.build(inputs_shape, memory_shape)
            self.cross_attention_block.build(inputs_shape)
        self.build_parts(inputs_shape, unit, self.self_attention_block)

    def call(
        self,
        inputs: Tensor,
        memory: Tensor = None,
        *,
        mask: Tensor = None,
        inputs_mask: Tensor = None,
        memory_mask: Tensor = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        use_causal_mask: bool = True,
    ) -> Tensor:
        self._check_built_for(memory)
        mask = inputs_mask if mask is None else mask
        mask = as_attention_mask("mask", mask, self.scores_shape(inputs))
        memory_mask = as_attention_mask(
            "memory_mask", memory_mask, self.scores_shape(inputs, memory)
        )
        options = {"return_attention_scores": return_attention_scores, "training": training}
        if self.ssru is None:
            of_self = {"attention_mask": mask, "use_causal_mask": use_causal_mask, **options}
            read_earlier = functools.partial(self.self_attention, **of_self)
        else:
            self._check_for_ssru(mask, use_causal_mask, return_attention_scores, memory)
            is_continued = None if mask is None else _sees_the_one_before(mask, inputs)
            read_earlier = functools.partial(self.ssru, is_continued=is_continued)
        outputs, *scores = self._run(
            inputs,
            read_earlier,
            lambda x: self.cross_attention(x, memory, attention_mask=memory_mask, **options),
            training,
        )
        if not return_attention_scores:
            return outputs
        # Keras does not allow None among the outputs of a layer in a functional model.
        return outputs, *(each for each in scores if each is not None)

    def step(
        self,
        inputs: Tensor,
        index: Tensor,
        memory: Any,
        memory_mask: Tensor,
        cache: Any,
        mask: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """Process one position for every beam.

        Args:
            inputs: tensor (batch, beams, hidden_dim), the inputs at the position.
            index: scalar integer tensor, the zero-based position.
            memory: keys and values from `project_memory`, one per sentence, not per beam; None
                for a layer without memory.
            memory_mask: boolean tensor (batch, source_length) or (batch, 1, source_length), or
                None.
            cache: self-attention cache or SSRU state from `start_cache` or the previous step.
            mask: mask for the cache entries, as in `MultiHeadAttention.step`.

        Returns:
            outputs: tensor (batch, beams, hidden_dim).
            cache: the given cache, updated with this position.
        """
        self._check_built_for(memory)
        outputs, cache, _ = self._run(
            inputs,
            (lambda x: self.ssru.step(x, cache))
            if self.ssru is not None
            else (lambda x: self.self_attention.step(x, cache, index, mask)),
            lambda x: self.cross_attention.attend_memory(x, memory, memory_mask),
            training=False,
        )
        return outputs, cache

    def _run(
        self,
        inputs: Tensor,
        read_earlier: Callable[[Tensor], Any],
        attend_memory: Callable[[Tensor], Any],
        training: bool | None,
    ) -> tuple[Tensor, Any, Any]:
        """Apply all sublayers.

        Returns:
            The outputs, the second return value of the self-attention or SSRU, and the second
            return value of the cross-attention. A sublayer without a second value yields None.
        """
        hidden, of_self = self.in_block(self.self_attention_block, inputs, read_earlier, training)
        of_memory = None
        if self.cross_attention is not None:
            hidden, of_memory = self.in_block(
                self.cross_attention_block, hidden, attend_memory, training
            )
        return self.feed(hidden, inputs, training), of_self, of_memory

    def start_cache(
        self, batch_size: Tensor, beam_size: Tensor, length: Tensor, *, grows: bool = False
    ) -> Any:
        """Create an empty cache (see `MultiHeadAttention.start_cache`) or an empty SSRU state."""
        if not self.built:
            raise ValueError(
                f"`{self.name}` must be called, or loaded, before it takes steps. Received: a "
                "layer without weights"
            )
        if self.ssru is not None:
            return self.ssru.start_cache(batch_size, beam_size)
        return self.self_attention.start_cache(batch_size, beam_size, length, grows=grows)

    def project_memory(self, memory: Tensor) -> tuple[Tensor, Tensor] | None:
        """Return the memory's keys and values for `step`, or None if there is no memory.

        See `MultiHeadAttention.project_memory`.
        """
        self._check_built_for(memory)
        return None if memory is None else self.cross_attention.project_memory(memory)

    def _check_built_for(self, memory: Any) -> None:
        if self.built and (memory is None) != (self.cross_attention is None):
            built, called = "with", "without"
            if self.cross_attention is None:
                built, called = called, built
            raise ValueError(
                f"`{self.name}` was built {built} `memory`; this cannot change. "
                f"Received: a call {called} `memory`"
            )

    def _check_for_ssru(
        self, mask: Tensor, use_causal_mask: bool, return_attention_scores: bool, memory: Tensor
    ) -> None:
        """Reject arguments that a recurrent unit does not support."""
        if not use_causal_mask:
            rule = "be True with decoder_unit='ssru', which reads only earlier positions"
            refuse("use_causal_mask", rule, use_causal_mask)
        if mask is not None and mask.shape[1] != 1:
            rule = "be the same for all heads with decoder_unit='ssru', which has no heads"
            refuse("mask", rule, shape=tuple(mask.shape))
        if return_attention_scores and memory is None:
            rule = "be False without memory if decoder_unit='ssru', which has no attention weights"
            refuse("return_attention_scores", rule, True)

    def compute_output_spec(
        self,
        inputs: Tensor,
        memory: Tensor = None,
        *,
        mask: Tensor = None,
        memory_mask: Tensor = None,
        return_attention_scores: bool = False,
        **_: Any,
    ) -> Any:
        self._check_built_for(memory)
        shape, memory_shape = self.scores_shape(inputs), self.scores_shape(inputs, memory)
        mask_axes("mask", mask, shape)
        mask_axes("memory_mask", memory_mask, memory_shape)
        outputs = keras.KerasTensor(inputs.shape, self.compute_dtype)
        if not return_attention_scores:
            return outputs
        shapes = [] if self.decoder_unit == "ssru" else [shape]
        shapes += [] if memory is None else [memory_shape]
        return outputs, *(keras.KerasTensor(shape, "float32") for shape in shapes)


def _sees_the_one_before(mask: Tensor, inputs: Tensor) -> Tensor:
    """Return whether each position may attend to the previous one: bool (batch or 1, length).

    Args:
        mask: boolean tensor that broadcasts to (batch, 1, length, length).
        inputs: tensor (batch, length, hidden_dim).
    """
    length = ops.shape(inputs)[1]
    square = ops.broadcast_to(mask[:, 0], (ops.shape(mask)[0], length, length))
    before = ops.diagonal(square, offset=-1, axis1=1, axis2=2)
    return ops.pad(before, [[0, 0], [1, 0]], constant_values=True)

"""What the encoder's and the decoder's layers have in common."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_int,
    check_rate,
    check_window,
    known_width,
)
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.initialization import checked_initializer, fresh
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON, ResidualBlock
from keras_transformer.types import Shape, Tensor


class TransformerLayer(keras.layers.Layer):
    """Options, feed-forward network and config of a Transformer's layer; the base of both kinds.

    The arguments are those of `TransformerEncoderLayer`.
    """

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
        normalize_first: bool = False,
        use_bias: bool = False,
        attention_window: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_int("num_heads", num_heads)
        for name, size in (("key_dim", key_dim), ("value_dim", value_dim)):
            if size is not None:
                check_positive_int(name, size)
        check_rate("attention_dropout", attention_dropout)
        check_rate("activation_dropout", activation_dropout)
        check_bool("use_bias", use_bias)
        check_window("attention_window", attention_window)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = layer_norm_epsilon
        self.kernel_initializer = checked_initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = checked_initializer("bias_initializer", bias_initializer)
        self.normalize_first = normalize_first
        self.use_bias = use_bias
        self.attention_window = attention_window
        self.feed_forward = FeedForward(
            intermediate_dim,
            dropout=activation_dropout,
            activation=self.activation,
            kernel_initializer=fresh(self.kernel_initializer),
            bias_initializer=fresh(self.bias_initializer),
            dtype=self.dtype_policy,
        )
        self.feed_forward_block = self.create_block()

    def create_attention(
        self, inputs_shape: Shape, attention_window: int | None = None
    ) -> MultiHeadAttention:
        """A `MultiHeadAttention` with the layer's options, for inputs of some width."""
        hidden_dim = known_width("inputs", inputs_shape)
        if self.key_dim is None and hidden_dim % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the inputs where `key_dim` is None. "
                f"Received: num_heads={self.num_heads}, inputs of width {hidden_dim}"
            )
        return MultiHeadAttention(
            self.num_heads,
            hidden_dim // self.num_heads if self.key_dim is None else self.key_dim,
            value_dim=self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            attention_window=attention_window,
            kernel_initializer=fresh(self.kernel_initializer),
            bias_initializer=fresh(self.bias_initializer),
            dtype=self.dtype_policy,
        )

    def create_block(self) -> ResidualBlock:
        """A `ResidualBlock` with the layer's options."""
        return ResidualBlock(
            dropout=self.dropout,
            normalize_first=self.normalize_first,
            layer_norm_epsilon=self.layer_norm_epsilon,
            dtype=self.dtype_policy,
        )

    def in_block(
        self,
        block: ResidualBlock,
        inputs: Tensor,
        sublayer: Callable[[Tensor], Any],
        training: bool | None,
    ) -> tuple[Tensor, Any]:
        """A sub-layer in its residual block, and what it returns beside its outputs, or None."""
        outputs = sublayer(block.enter(inputs))
        outputs, other = outputs if isinstance(outputs, tuple) else (outputs, None)
        return block(inputs, outputs, training=training), other

    def feed(self, hidden: Tensor, training: bool | None = None) -> Tensor:
        """The feed-forward network in its residual block; (batch, length, hidden_dim) stays."""
        return self.in_block(
            self.feed_forward_block,
            hidden,
            lambda x: self.feed_forward(x, training=training),
            training,
        )[0]

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor) -> Tensor:
        # Symbolic calls come here; in others the inputs' mask has passed from part to part. The
        # previous mask is the argument `mask`, which may be one of attention.
        own_mask = getattr(inputs, "_keras_mask", None)
        if own_mask is not None or previous_mask is None:
            return own_mask
        return previous_mask if len(previous_mask.shape) == 2 else None

    def scores_spec(self, inputs: Tensor, source_length: int | None) -> keras.KerasTensor:
        """The spec of attention scores."""
        shape = (inputs.shape[0], self.num_heads, inputs.shape[1], source_length)
        return keras.KerasTensor(shape, "float32")

    def compute_output_shape(self, inputs_shape: Shape, memory_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "activation": keras.activations.serialize(self.activation),
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer),
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "normalize_first": self.normalize_first,
            "use_bias": self.use_bias,
            "attention_window": self.attention_window,
        }

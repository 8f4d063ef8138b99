"""What the encoder's and the decoder's layers have in common."""

from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_int,
    check_positive_number,
    check_rate,
    check_window,
    known_width,
    python_number,
)
from keras_transformer.errors import OUR_CALL_KEYWORDS, refuse_keywords
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
        residual_scale: float = 1.0,
        initial_gain: float = 1.0,
        b2t_connection: bool = False,
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
        check_positive_number("residual_scale", residual_scale)
        check_bool("b2t_connection", b2t_connection)
        if b2t_connection and normalize_first:
            raise ValueError(
                "`b2t_connection` must be False with `normalize_first`: it is for post-norm. "
                "Received: b2t_connection=True, normalize_first=True"
            )
        self.supports_masking = True
        self.intermediate_dim = python_number(intermediate_dim)
        self.num_heads = python_number(num_heads)
        self.key_dim = python_number(key_dim)
        self.value_dim = python_number(value_dim)
        self.dropout = python_number(dropout)
        self.attention_dropout = python_number(attention_dropout)
        self.activation_dropout = python_number(activation_dropout)
        self.activation = keras.activations.get(activation)
        self.layer_norm_epsilon = python_number(layer_norm_epsilon)
        self.kernel_initializer = checked_initializer("kernel_initializer", kernel_initializer)
        self.bias_initializer = checked_initializer("bias_initializer", bias_initializer)
        self.normalize_first = normalize_first
        self.use_bias = use_bias
        self.attention_window = python_number(attention_window)
        self.residual_scale = python_number(residual_scale)
        self.initial_gain = python_number(initial_gain)
        self.b2t_connection = b2t_connection
        self.feed_forward = FeedForward(
            intermediate_dim,
            dropout=activation_dropout,
            activation=self.activation,
            kernel_initializer=fresh(self.kernel_initializer),
            bias_initializer=fresh(self.bias_initializer),
            initial_gain=initial_gain,
            dtype=self.dtype_policy,
        )
        self.feed_forward_block = self.create_block()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        refuse_keywords(type(self).__name__, kwargs, OUR_CALL_KEYWORDS)
        return super().__call__(*args, **kwargs)

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
            initial_gain=self.initial_gain,
            dtype=self.dtype_policy,
        )

    def create_block(self) -> ResidualBlock:
        """A `ResidualBlock` with the layer's options."""
        return ResidualBlock(
            dropout=self.dropout,
            normalize_first=self.normalize_first,
            layer_norm_epsilon=self.layer_norm_epsilon,
            scale=self.residual_scale,
            dtype=self.dtype_policy,
        )

    def in_block(
        self,
        block: ResidualBlock,
        inputs: Tensor,
        sublayer: Callable[[Tensor], Any],
        training: bool | None,
        shortcut: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """A sub-layer in its residual block, and what it returns beside its outputs, or None."""
        outputs = sublayer(block.enter(inputs))
        outputs, other = outputs if isinstance(outputs, tuple) else (outputs, None)
        return block(inputs, outputs, shortcut, training=training), other

    def feed(self, hidden: Tensor, inputs: Tensor, training: bool | None = None) -> Tensor:
        """The feed-forward network in its residual block, the layer's end.

        Args:
            hidden: tensor (batch, length, hidden_dim), what the attentions gave.
            inputs: tensor of the same shape, the layer's own inputs.
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
            "residual_scale": self.residual_scale,
            "initial_gain": self.initial_gain,
            "b2t_connection": self.b2t_connection,
        }

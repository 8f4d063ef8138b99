"""What encoder and decoder layers have in common."""

from collections.abc import Callable
from typing import Any

from keras_transformer.argument_checks import (
    check_bool,
    check_positive_int,
    check_positive_number,
    check_rate,
    check_seed,
    check_vectors,
    check_window,
    known_width,
)
from keras_transformer.errors import OUR_CALL_KEYWORDS, refuse_keywords
from keras_transformer.layers.attention_masks import PADDING, mask_axes
from keras_transformer.layers.composite_layer import part_seeds
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.kernel_layer import KernelLayer
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.positions import positions_in_attention
from keras_transformer.layers.residual_block import LAYER_NORM_EPSILON, ResidualBlock
from keras_transformer.types import Shape, Tensor

_MOST_PARTS = 6  # that have dropout


class TransformerLayer(KernelLayer):
    """Base class of `TransformerEncoderLayer` and `TransformerDecoderLayer`, with their options."""

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
        check_positive_int("num_heads", num_heads)
        for name, size in (("key_dim", key_dim), ("value_dim", value_dim)):
            if size is not None:
                check_positive_int(name, size)
        check_rate("attention_dropout", attention_dropout)
        check_rate("activation_dropout", activation_dropout)
        check_bool("use_bias", use_bias)
        check_window("attention_window", attention_window)
        positions_in_attention(positions)  # checks the name
        check_bool("qk_norm", qk_norm)
        check_positive_number("residual_scale", residual_scale)
        check_bool("b2t_connection", b2t_connection)
        if b2t_connection and normalize_first:
            raise ValueError(
                "`b2t_connection` must be False with `normalize_first`: it is for post-norm. "
                "Received: b2t_connection=True, normalize_first=True"
            )
        check_seed("seed", seed)
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
        """A `MultiHeadAttention` with the layer's options, for inputs of this width."""
        in_itself: dict[str, Any] = {
            "attention_window": self.attention_window,
            "positions": self.positions,
        }
        hidden_dim = known_width("inputs", inputs_shape)
        if self.key_dim is None and hidden_dim % self.num_heads:
            raise ValueError(
                "`num_heads` must divide the width of the inputs if `key_dim` is None. "
                f"Received: num_heads={self.num_heads}, inputs of width {hidden_dim}"
            )
        return MultiHeadAttention(
            self.num_heads,
            hidden_dim // self.num_heads if self.key_dim is None else self.key_dim,
            value_dim=self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            qk_norm=self.qk_norm,
            **(in_itself if to_itself else {}),
            **self.kernel_options(),
            initial_gain=self.initial_gain,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name=name,
        )

    def create_block(self, name: str) -> ResidualBlock:
        """A `ResidualBlock` with the layer's options."""
        return ResidualBlock(
            dropout=self.dropout,
            normalize_first=self.normalize_first,
            layer_norm_epsilon=self.layer_norm_epsilon,
            scale=self.residual_scale,
            seed=next(self._seeds),
            dtype=self.dtype_policy,
            name=name,
        )

    def in_block(
        self,
        block: ResidualBlock,
        inputs: Tensor,
        sublayer: Callable[[Tensor], Any],
        training: bool | None,
        shortcut: Tensor | None = None,
    ) -> tuple[Tensor, Any]:
        """A sub-layer in its residual block, and what it returns besides its outputs, or None."""
        outputs = sublayer(block.enter(inputs))
        outputs, other = outputs if isinstance(outputs, tuple) else (outputs, None)
        return block(inputs, outputs, shortcut, training=training), other

    def feed(self, hidden: Tensor, inputs: Tensor, training: bool | None = None) -> Tensor:
        """The feed-forward network in its residual block, at the layer's end.

        Args:
            hidden: tensor (batch, length, hidden_dim), the attention's outputs.
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
        # Symbolic calls come here; in other calls the inputs' mask has passed from part to part.
        # The previous mask is the argument `mask`, which may be an attention mask.
        own_mask = getattr(inputs, "_keras_mask", None)
        if own_mask is not None or previous_mask is None:
            return own_mask
        axes = mask_axes("mask", previous_mask, self.scores_shape(inputs))
        return previous_mask if axes == PADDING else None

    def scores_shape(self, inputs: Tensor, memory: Tensor = None) -> Shape:
        """Shape of the attention to `memory`, or to the inputs; checks the ranks of both."""
        source = inputs if memory is None else memory
        check_vectors("inputs", inputs.shape)
        check_vectors("memory", source.shape)
        return inputs.shape[0], self.num_heads, inputs.shape[1], source.shape[1]

    def compute_output_shape(self, inputs_shape: Shape, memory_shape: Shape | None = None) -> Shape:
        return tuple(inputs_shape)

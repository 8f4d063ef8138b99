"""Keras layers of the Transformer."""

from typing import TYPE_CHECKING, Any

from keras_transformer.errors import no_attribute
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.padding_mask import PaddingMask
from keras_transformer.layers.positional_embedding import PositionalEmbedding
from keras_transformer.layers.residual_block import ResidualBlock
from keras_transformer.layers.ssru import SSRU
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_decoder_layer import TransformerDecoderLayer
from keras_transformer.layers.transformer_encoder_layer import TransformerEncoderLayer

__all__ = [
    "SSRU",
    "FeedForward",
    "MultiHeadAttention",
    "PaddingMask",
    "PositionalEmbedding",
    "ResidualBlock",
    "TokenEmbedding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
]

if not TYPE_CHECKING:  # with this, type checkers would accept any name

    def __getattr__(name: str) -> Any:
        raise no_attribute(__name__, name)

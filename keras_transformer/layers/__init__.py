"""Keras layers of the Transformer."""

from typing import TYPE_CHECKING, Any

from keras_transformer.errors import no_attribute
from keras_transformer.layers.attention_masks import PaddingMask
from keras_transformer.layers.embeddings import PositionalEmbedding, TokenEmbedding
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.sublayers import SSRU, FeedForward, ResidualBlock
from keras_transformer.layers.transformer_layers import (
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)

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

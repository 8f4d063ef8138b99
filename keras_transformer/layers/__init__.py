"""Keras layers of the Transformer."""

from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.padding_mask import PaddingMask
from keras_transformer.layers.positional_embedding import PositionalEmbedding
from keras_transformer.layers.residual_block import ResidualBlock
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.transformer_decoder_layer import TransformerDecoderLayer
from keras_transformer.layers.transformer_encoder_layer import TransformerEncoderLayer

__all__ = [
    "FeedForward",
    "MultiHeadAttention",
    "PaddingMask",
    "PositionalEmbedding",
    "ResidualBlock",
    "TokenEmbedding",
    "TransformerDecoderLayer",
    "TransformerEncoderLayer",
]

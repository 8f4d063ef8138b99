"""Attention maps as arrays, as an HTML page, and as a figure."""

from keras_transformer.inference.attention_figure import attention_figure
from keras_transformer.inference.attention_maps import (
    AttentionMaps,
    attention_maps,
    text_attention_maps,
)
from keras_transformer.inference.attention_page import attention_page

__all__ = [
    "AttentionMaps",
    "attention_figure",
    "attention_maps",
    "attention_page",
    "text_attention_maps",
]

"""The Transformer as a functional model, and its sizes."""

from keras_transformer.models.ensemble import TransformerEnsemble
from keras_transformer.models.presets import PRESETS, Preset, check_heads
from keras_transformer.models.transformer import build_transformer, check_model_fits
from keras_transformer.models.transformer_stacks import TransformerStacks
from keras_transformer.models.vocabulary_padding import (
    padded_vocabulary_size,
    vocabulary_options,
)

__all__ = [
    "PRESETS",
    "Preset",
    "TransformerEnsemble",
    "TransformerStacks",
    "build_transformer",
    "check_heads",
    "check_model_fits",
    "padded_vocabulary_size",
    "vocabulary_options",
]

"""Transformers as functional models, and their sizes."""

from typing import TYPE_CHECKING, Any

from keras_transformer.decoding.ensemble import TransformerEnsemble
from keras_transformer.errors import no_attribute
from keras_transformer.models.model_building import (
    build_language_model,
    build_transformer,
    check_model_fits,
    layout_map,
    padded_vocabulary_size,
    vocabulary_options,
)
from keras_transformer.models.model_options import PRESETS, ModelOptions, Preset
from keras_transformer.models.transformer import Transformer

__all__ = [
    "PRESETS",
    "ModelOptions",
    "Preset",
    "Transformer",
    "TransformerEnsemble",
    "build_language_model",
    "build_transformer",
    "check_model_fits",
    "layout_map",
    "padded_vocabulary_size",
    "vocabulary_options",
]

if not TYPE_CHECKING:  # with this, type checkers would accept any name

    def __getattr__(name: str) -> Any:
        raise no_attribute(__name__, name)

"""Optimizers."""

from keras_transformer.optimizers.adam_with_gradient_norm import AdamWithGradientNorm
from keras_transformer.optimizers.muon import Muon
from keras_transformer.optimizers.transformer_adam import (
    inner_optimizer,
    transformer_adam,
    transformer_optimizer,
)

__all__ = [
    "AdamWithGradientNorm",
    "Muon",
    "inner_optimizer",
    "transformer_adam",
    "transformer_optimizer",
]

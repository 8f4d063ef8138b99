"""Optimizers."""

from keras_transformer.optimizers.adam_with_gradient_norm import AdamWithGradientNorm
from keras_transformer.optimizers.transformer_adam import transformer_adam

__all__ = ["AdamWithGradientNorm", "transformer_adam"]

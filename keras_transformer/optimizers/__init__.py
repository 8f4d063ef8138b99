"""Optimizers."""

from keras_transformer.optimizers.transformer_adam import transformer_adam

__all__ = ["transformer_adam"]

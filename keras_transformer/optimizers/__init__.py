"""Optimizers."""

from keras_transformer.optimizers.adam_with_gradient_norm import AdamWithGradientNorm
from keras_transformer.optimizers.loss_scaling import inner_optimizer
from keras_transformer.optimizers.transformer_adam import transformer_adam

__all__ = ["AdamWithGradientNorm", "inner_optimizer", "transformer_adam"]

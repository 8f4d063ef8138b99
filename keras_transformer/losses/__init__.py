"""Losses over target tokens."""

from keras_transformer.losses.label_smoothing_cross_entropy import LabelSmoothingCrossEntropy

__all__ = ["LabelSmoothingCrossEntropy"]

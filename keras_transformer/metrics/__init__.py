"""Metrics over target tokens."""

from keras_transformer.metrics.perplexity import Perplexity
from keras_transformer.metrics.step_loss import StepLoss
from keras_transformer.metrics.token_accuracy import TokenAccuracy
from keras_transformer.metrics.token_loss import TokenLoss
from keras_transformer.metrics.training_metrics import training_metrics

__all__ = ["Perplexity", "StepLoss", "TokenAccuracy", "TokenLoss", "training_metrics"]

"""Scores of translations: everything here works on lists of strings."""

from keras_transformer.evaluation.bleu import bleu
from keras_transformer.evaluation.exact_match import exact_match
from keras_transformer.evaluation.scorecard import scorecard

__all__ = ["bleu", "exact_match", "scorecard"]

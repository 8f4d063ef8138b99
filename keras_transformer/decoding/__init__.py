"""Searches for the outputs of a stepwise model: they take a callable, not a model.

`sequence_generator` connects them with a `Transformer`, or with an `ensemble` of several.
"""

from keras_transformer.decoding.alpha_sweep import beam_search_of_alphas
from keras_transformer.decoding.beam_search import beam_search
from keras_transformer.decoding.constraints import (
    ForcedPrefix,
    MinimumLength,
    NoRepeatNgrams,
    WithoutUnknown,
)
from keras_transformer.decoding.greedy_search import greedy_search
from keras_transformer.decoding.length_penalty import length_penalty
from keras_transformer.decoding.sampling import sample
from keras_transformer.decoding.tree_constraint import TreeTokens, WellFormedTree

__all__ = [
    "ForcedPrefix",
    "MinimumLength",
    "NoRepeatNgrams",
    "TreeTokens",
    "WellFormedTree",
    "WithoutUnknown",
    "beam_search",
    "beam_search_of_alphas",
    "greedy_search",
    "length_penalty",
    "sample",
]

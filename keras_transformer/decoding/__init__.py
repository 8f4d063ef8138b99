"""Search algorithms for stepwise models. They take a callable, not a model.

`sequence_generator` connects them with a `Transformer`, or with an `ensemble` of several.
"""

from keras_transformer.decoding.beam_search import beam_search, beam_search_of_alphas
from keras_transformer.decoding.constraints import (
    ForcedPrefix,
    MinimumLength,
    NoRepeatNgrams,
    TreeTokens,
    WellFormedTree,
    WithoutUnknown,
)
from keras_transformer.decoding.sampling import greedy_search, sample
from keras_transformer.decoding.sentence_loop import length_penalty

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

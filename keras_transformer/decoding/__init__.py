"""Search algorithms for autoregressive models; they accept a step function instead of a model.

`sequence_generator` applies them to a `Transformer`, or to an `ensemble` of several models.
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
from keras_transformer.decoding.required_terms import RequiredTerms
from keras_transformer.decoding.sampling import greedy_search, sample
from keras_transformer.decoding.sentence_loop import length_penalty

__all__ = [
    "ForcedPrefix",
    "MinimumLength",
    "NoRepeatNgrams",
    "RequiredTerms",
    "TreeTokens",
    "WellFormedTree",
    "WithoutUnknown",
    "beam_search",
    "beam_search_of_alphas",
    "greedy_search",
    "length_penalty",
    "sample",
]

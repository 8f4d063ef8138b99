"""Searches for the best output of a stepwise model; they take a callable and know no model."""

from keras_transformer.decoding.beam_search import beam_search
from keras_transformer.decoding.greedy_search import greedy_search
from keras_transformer.decoding.length_penalty import length_penalty

__all__ = ["beam_search", "greedy_search", "length_penalty"]

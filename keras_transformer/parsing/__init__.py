"""Constituency parsing with bracketed trees, linearized trees and EVALB scores."""

from keras_transformer.parsing import evalb
from keras_transformer.parsing.linearization import (
    LEAF_TOKEN,
    TreeTokenizer,
    bracket_tokens,
    linearize,
    read_trees,
    rebuild,
    repair,
)
from keras_transformer.parsing.tree import Leaf, Tree, clean, source_text

__all__ = [
    "LEAF_TOKEN",
    "Leaf",
    "Tree",
    "TreeTokenizer",
    "bracket_tokens",
    "clean",
    "evalb",
    "linearize",
    "read_trees",
    "rebuild",
    "repair",
    "source_text",
]

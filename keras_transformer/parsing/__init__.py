"""Constituency parsing: bracketed trees, trees as sequences of tokens, and EVALB."""

from keras_transformer.parsing import evalb
from keras_transformer.parsing.cleaning import clean
from keras_transformer.parsing.leaf import Leaf, source_text
from keras_transformer.parsing.linearization import (
    LEAF_TOKEN,
    bracket_tokens,
    linearize,
    rebuild,
)
from keras_transformer.parsing.repair import repair
from keras_transformer.parsing.tree import Tree
from keras_transformer.parsing.tree_files import read_trees
from keras_transformer.parsing.tree_tokenizer import TreeTokenizer

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

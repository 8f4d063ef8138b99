"""The 3,669 trees of the Penn Treebank's sample."""

import functools

from keras_transformer.parsing import read_trees
from tests.external_data import PTB_SAMPLE, needs

FILES = [PTB_SAMPLE / "train.mrg.gz", PTB_SAMPLE / "dev.mrg.gz"]

needs_sample = needs(*FILES)


@functools.cache
def sample_trees():
    """All trees of the sample, as they are written."""
    return [tree for file in FILES for tree in read_trees(file, clean=False)]

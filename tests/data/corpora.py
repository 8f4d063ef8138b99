"""Corpora of token ids made in memory, tokenizers for them, and equal batches."""

import hashlib
import itertools

import numpy as np

from keras_transformer.data import ParallelCorpus, plan_batches
from keras_transformer.types import SpecialTokens


def corpus_of(sources, targets):
    """A corpus of the given sentences, lists of ids; its lines are numbered from 1."""

    def side(sentences):
        ids = np.array(list(itertools.chain(*sentences)), dtype="int32")
        return ids, np.cumsum([0, *map(len, sentences)])

    line_numbers = np.arange(1, len(sources) + 1)
    return ParallelCorpus(*side(sources), *side(targets), line_numbers, metadata={})


def random_corpus(pairs=200, seed=0):
    """A corpus of ids from 4 to 899 in sentences of 1 to 29 tokens."""
    generator = np.random.default_rng(seed)

    def sentences():
        return [generator.integers(4, 900, generator.integers(1, 30)) for _ in range(pairs)]

    return corpus_of(sentences(), sentences())


def reader_of(corpora, special_tokens=SpecialTokens(), **settings):  # noqa: B008
    """A reader of batches of at most 256 tokens a side."""
    return plan_batches(corpora, special_tokens, **{"batch_tokens": 256, "seed": 1, **settings})


def random_lengths(pairs, seed=0):
    """Lengths from 1 to 39 of sources and targets, `(2, pairs)`."""
    return np.random.default_rng(seed).integers(1, 40, (2, pairs))


class SpelledCorpus(ParallelCorpus):
    """A corpus whose text spells its ids: "5 6" for 5 and 6."""

    def source_text(self, indices):
        return [" ".join(map(str, self.source(index))) for index in indices]

    def target_text(self, indices):
        return [" ".join(map(str, self.target(index))) for index in indices]


def with_text(corpus):
    """The same corpus with text."""
    sides = corpus.source_ids, corpus.source_offsets, corpus.target_ids, corpus.target_offsets
    return SpelledCorpus(*sides, corpus.line_numbers, corpus.metadata)


class CuttingTokenizer:
    """Reads spelled ids, and cuts each in two with probability alpha."""

    PIECE = 1000  # what it puts behind a token that it cuts
    fingerprint = "cutting"

    def sample(self, sentences, *, alpha, seed):
        generator = np.random.default_rng(seed)
        return [
            [
                piece
                for word in line.split()
                for piece in (
                    [int(word), self.PIECE] if generator.random() < alpha else [int(word)]
                )
            ]
            for line in sentences
        ]


def assert_same(batch, expected):
    """Require two batches, of arrays or tensors, to be equal."""
    import keras  # slow to start, and not needed by programs of the tests

    keras.tree.map_structure(np.testing.assert_array_equal, batch, expected)


class LetterTokenizer:
    """Every letter is a token, 97 to 122. Counts how often it is asked."""

    vocabulary_size = 128

    def __init__(self, name="letters"):
        self.fingerprint = hashlib.sha256(name.encode()).hexdigest()
        self.calls = 0

    def encode(self, sentences):
        self.calls += 1
        return [[ord(letter) for letter in line if letter != " "] for line in sentences]

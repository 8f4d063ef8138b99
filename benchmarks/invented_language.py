"""A corpus of invented sentences with a learnable translation."""

import numpy as np

from benchmarks.wmt_lengths import wmt_lengths
from keras_transformer.data import ParallelCorpus
from keras_transformer.types import SpecialTokens

FIRST_WORD = max(vars(SpecialTokens()).values()) + 1


def invented_corpus(
    pairs: int, vocabulary_size: int, longest: int, seed: int = 1
) -> ParallelCorpus:
    """Generate random sentence pairs.

    Source words follow Zipf's law. The target consists of the same words in a different spelling (a
    permutation of the vocabulary), repeated if the target is longer. The loss therefore falls as it
    does on real text, first to the entropy of the words and then further as the model learns the
    spelling.

    Args:
        pairs: number of pairs.
        vocabulary_size: number of ids, including special tokens.
        longest: maximum number of tokens per sentence.
        seed: random seed.

    Returns:
        The corpus.
    """
    generator = np.random.default_rng(seed)
    sources, targets = (np.minimum(lengths, longest) for lengths in wmt_lengths(pairs, seed))
    source_offsets, target_offsets = (
        np.concatenate([[0], np.cumsum(lengths)]) for lengths in (sources, targets)
    )
    words = _zipf_draws(vocabulary_size - FIRST_WORD, source_offsets[-1], generator)
    position = np.arange(target_offsets[-1]) - np.repeat(target_offsets[:-1], targets)
    position %= np.repeat(sources, targets)
    spelling = generator.permutation(vocabulary_size - FIRST_WORD)
    translated = spelling[words[np.repeat(source_offsets[:-1], targets) + position]]
    return ParallelCorpus(
        (words + FIRST_WORD).astype("int32"),
        source_offsets,
        (translated + FIRST_WORD).astype("int32"),
        target_offsets,
        np.arange(1, pairs + 1),
        metadata={"vocabulary_size": vocabulary_size},
    )


def _zipf_draws(words: int, number: int, generator: np.random.Generator) -> np.ndarray:
    """Draw `number` words from [0, words) with frequencies proportional to 1 / rank."""
    bounds = np.cumsum(1 / np.arange(1, words + 1))
    draws = np.searchsorted(bounds / bounds[-1], generator.random(number), side="right")
    return np.minimum(draws, words - 1)  # rounding may reduce the last bound below 1

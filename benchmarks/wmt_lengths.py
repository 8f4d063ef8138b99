"""Sentence lengths as those of WMT's English and German, invented."""

import numpy as np

LONGEST = 200


def wmt_lengths(pairs, seed=1):
    """Draw lengths of sentence pairs: log-normal, 28 target tokens on average, at most 200.

    Args:
        pairs: number of pairs.
        seed: of the draws.

    Returns:
        Two int64 arrays `(pairs,)`: source and target tokens without end of sentence. They go
        together: a long source has a long target.
    """
    generator = np.random.default_rng(seed)
    sources = np.clip(generator.lognormal(3.15, 0.6, pairs), 1, LONGEST).astype("int64")
    ratios = generator.normal(1.05, 0.2, pairs)
    return sources, np.clip(sources * ratios, 1, LONGEST).astype("int64")

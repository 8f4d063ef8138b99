"""Random sentence lengths with the distribution of WMT English-German."""

import numpy as np

LONGEST = 200


def wmt_lengths(pairs: int, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Draw log-normal lengths of sentence pairs, with 28 target tokens on average and at most 200.

    Args:
        pairs: number of pairs.
        seed: random seed.

    Returns:
        Two int64 arrays `(pairs,)`: the numbers of source and target tokens, excluding EOS. The two
        lengths of a pair are correlated.
    """
    generator = np.random.default_rng(seed)
    sources = np.clip(generator.lognormal(3.15, 0.6, pairs), 1, LONGEST).astype("int64")
    ratios = generator.normal(1.05, 0.2, pairs)
    return sources, np.clip(sources * ratios, 1, LONGEST).astype("int64")

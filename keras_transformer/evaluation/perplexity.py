"""Perplexity of given log-probabilities."""

import math
from collections.abc import Iterable


def perplexity(log_probs: Iterable[float], num_tokens: int) -> float:
    """Compute the perplexity per token: `exp` of the mean negative log-probability.

    Args:
        log_probs: natural-log probabilities of sentences, as `Translator.score` gives them.
        num_tokens: number of tokens of all sentences, EOS counted.

    Returns:
        The perplexity; inf where it is larger than any float, as of a training that has diverged.

    Example:
        >>> perplexity([-2.0, -4.0], 6)
        2.718281828459045
        >>> perplexity([-1e6], 10)
        inf
    """
    try:
        return math.exp(-math.fsum(log_probs) / num_tokens)
    except OverflowError:
        return math.inf

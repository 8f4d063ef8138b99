"""The significance of the difference between two systems."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from typing import Any

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.evaluation.scores import METRICS, check_paired, metrics_of

SEED_VARIABLE = "SACREBLEU_SEED"


def paired_bootstrap(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    samples: int = 1000,
    seed: int = 12345,
) -> dict[str, Any]:
    """Compare two systems with a paired bootstrap of each of sacrebleu's scores.

    Both systems are scored on the same resampled test sets.

    Args:
        hypotheses: the translations of the system.
        baseline: the translations of the system to compare it with.
        references: the references, one for each translation.
        tokenize: sacrebleu's tokenizer.
        samples: number of resampled test sets.
        seed: seed of the resampling, a positive integer.

    Returns:
        A JSON-compatible dictionary with `samples`, `seed`, and a dictionary for each score of
        sacrebleu that `system_scores` returns, such as `bleu` and `chrf`:

        - `score`, `mean`, `confidence_interval`: the system's score on the test set, the mean score
          over the samples, and half the width of the 95 % interval around that mean;
        - `baseline_score`, `baseline_mean`, `baseline_confidence_interval`: the same for the
          baseline;
        - `p_value`: probability of a difference at least as large by chance; 1 for equal scores.

    Raises:
        ValueError: `samples` or `seed` is not a positive integer.
        UserInputError: the lists are empty or differ in length, or sacrebleu does not know the
            tokenizer.

    Example:
        >>> good, bad = ["ein kleines Haus am See"] * 9, ["das große Auto vor Ort"] * 9
        >>> paired_bootstrap(good, bad, good, samples=99)["bleu"]["p_value"]
        0.01

    Reference:
        Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation".
    """
    from sacrebleu.significance import PairedTest

    check_positive_int("samples", samples)
    check_positive_int("seed", seed)  # sacrebleu treats 0 as no seed
    samples, seed = int(samples), int(seed)
    check_paired(hypotheses, references)
    check_paired(baseline, references)
    with _sacrebleu_seed(seed):
        test = PairedTest(
            [("baseline", baseline), ("system", hypotheses)],
            metrics_of(tokenize),
            [references],
            test_type="bs",
            n_samples=samples,
        )
        _, results = test()
    _, *pairs = results.values()  # the systems' names; then, by sacrebleu's names, each score
    compared = {name: _comparison(*pair) for name, pair in zip(METRICS, pairs, strict=True)}
    return {"samples": samples, "seed": seed, **compared}


def _comparison(baseline: Any, system: Any) -> dict[str, float]:
    """Two results of sacrebleu as one dictionary of floats."""
    values = {f"baseline_{name}": value for name, value in _estimate(baseline).items()}
    # Sacrebleu would report equal systems as significantly different.
    p_value = float(system.p_value) if system.score != baseline.score else 1.0
    return {**_estimate(system), **values, "p_value": p_value}


def _estimate(result: Any) -> dict[str, float]:
    return {
        "score": float(result.score),
        "mean": float(result.mean),
        "confidence_interval": float(result.ci),
    }


@contextlib.contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Set sacrebleu's seed, which it reads from the environment."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before

"""Is one system better than another, or was it luck with these sentences?"""

import contextlib
import os

import sacrebleu
from sacrebleu.significance import PairedTest

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.evaluation.bleu import bleu_metric, check_paired

SEED_VARIABLE = "SACREBLEU_SEED"


def paired_bootstrap(hypotheses, baseline, references, *, tokenize="13a", samples=1000, seed=12345):
    """Paired bootstrap of BLEU and chrF: both systems on the same resampled test sets.

    Args:
        hypotheses: list of strings, the translations of the system in question.
        baseline: list of strings, those of the system it is compared with.
        references: list of strings.
        tokenize: sacrebleu's tokenizer.
        samples: number of resampled test sets.
        seed: of the resampling.

    Returns:
        A dict fit for JSON: `samples`, `seed`, and for `bleu` and `chrf` a dict each:

        - `score`, `mean`, `confidence_interval`: the system's score on the test set, its mean over
          the samples, and half the width of the 95 % interval around that mean;
        - `baseline_score`, `baseline_mean`, `baseline_confidence_interval`: the same of the other;
        - `p_value`: how often chance alone gives a difference as large as the one seen; 1 where
          none is seen.

    Raises:
        ValueError: `samples` is no positive integer.
        UserInputError: there is nothing to score, the lists differ in length, or sacrebleu has no
            such tokenizer.

    Example:
        >>> good, bad = ["ein kleines Haus am See"] * 9, ["das große Auto vor Ort"] * 9
        >>> paired_bootstrap(good, bad, good, samples=99)["bleu"]["p_value"]
        0.01

    Reference:
        Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation".
    """
    check_positive_int("samples", samples)
    check_paired(hypotheses, references)
    check_paired(baseline, references)
    with _sacrebleu_seed(seed):
        test = PairedTest(
            [("baseline", baseline), ("system", hypotheses)],
            {"BLEU": bleu_metric(tokenize), "chrF2": sacrebleu.CHRF()},
            [references],
            test_type="bs",
            n_samples=samples,
        )
        _, results = test()
    return {
        "samples": samples,
        "seed": seed,
        "bleu": _comparison(*results["BLEU"]),
        "chrf": _comparison(*results["chrF2"]),
    }


def _comparison(baseline, system):
    """Two of sacrebleu's results as one dict of plain floats."""
    values = {f"baseline_{name}": value for name, value in _estimate(baseline).items()}
    # Sacrebleu calls equal systems significantly different: no sample differs by more than 0.
    p_value = float(system.p_value) if system.score != baseline.score else 1.0
    return {**_estimate(system), **values, "p_value": p_value}


def _estimate(result):
    return {
        "score": float(result.score),
        "mean": float(result.mean),
        "confidence_interval": float(result.ci),
    }


@contextlib.contextmanager
def _sacrebleu_seed(seed):
    """Sacrebleu takes its seed from the environment alone."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before

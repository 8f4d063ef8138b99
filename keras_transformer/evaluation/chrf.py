"""The character n-gram score chrF as sacrebleu computes it."""

from collections.abc import Sequence

import sacrebleu

from keras_transformer.evaluation.bleu import check_paired


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Compute corpus chrF2 (only characters, beta 2, cased) with sacrebleu.

    White space is ignored, so text in Moses tokens gets the same score as plain text.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.

    Returns:
        `(score, signature)`: chrF from 0 to 100, and sacrebleu's signature of how it was computed.

    Raises:
        UserInputError: the lists are empty or differ in length.

    Example:
        >>> score, signature = chrf(["ein Haus am See ."], ["ein Haus am See."])
        >>> round(score, 6)
        100.0

    Reference:
        Popović, 2015, "chrF: character n-gram F-score for automatic MT evaluation".
    """
    check_paired(hypotheses, references)
    metric = sacrebleu.CHRF()
    score = metric.corpus_score(hypotheses, [references]).score
    return score, str(metric.get_signature())

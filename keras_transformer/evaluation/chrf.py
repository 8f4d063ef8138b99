"""The character n-gram score chrF as sacrebleu computes it."""

import sacrebleu

from keras_transformer.evaluation.bleu import check_paired


def chrf(hypotheses, references):
    """Corpus chrF2 (characters alone, beta 2, cased) and the signature that says so.

    White space is not counted, so text in Moses tokens gets the score that plain text gets.

    Args:
        hypotheses: list of strings, the translations.
        references: list of strings, one a hypothesis.

    Returns:
        `(score, signature)`: chrF from 0 to 100, and sacrebleu's signature.

    Raises:
        UserInputError: there is nothing to score, or the lists differ in length.

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

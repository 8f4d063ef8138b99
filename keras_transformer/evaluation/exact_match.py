"""Share of translations that equal their reference."""

from collections.abc import Sequence

from keras_transformer.evaluation.bleu import check_paired


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compute the share of translations that equal their reference, from 0 to 1.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.

    Example:
        >>> exact_match(["eins", "zwo", "drei", "vier"], ["eins", "zwei", "drei", "vier"])
        0.75
    """
    check_paired(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(hypothesis == reference for hypothesis, reference in pairs) / len(references)

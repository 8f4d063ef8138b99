"""Share of translations that equal their reference."""

from keras_transformer.evaluation.bleu import check_paired


def exact_match(hypotheses, references):
    """Share of hypotheses that equal their reference, from 0 to 1.

    Args:
        hypotheses: list of strings.
        references: list of strings, one a hypothesis.

    Example:
        >>> exact_match(["eins", "zwo", "drei", "vier"], ["eins", "zwei", "drei", "vier"])
        0.75
    """
    check_paired(hypotheses, references)
    pairs = zip(hypotheses, references, strict=True)
    return sum(hypothesis == reference for hypothesis, reference in pairs) / len(references)

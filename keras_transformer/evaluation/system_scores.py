"""The scores of one system's translations."""

from collections.abc import Sequence
from typing import Any

from keras_transformer.evaluation.bleu import bleu_metric, check_paired
from keras_transformer.evaluation.chrf import chrf
from keras_transformer.evaluation.tokenized_compound_split_bleu import (
    tokenized_compound_split_bleu,
)


def system_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    language: str = "de",
) -> dict[str, Any]:
    """Compute all scores of a system's translations.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.
        tokenize: sacrebleu's tokenizer; `"none"` for text in Moses tokens, for both kinds of BLEU.
        language: code of the language, for the Moses tokenizer.

    Returns:
        A JSON-compatible dictionary of `bleu`, `bleu_signature`, `chrf`, `chrf_signature`,
        `tokenized_compound_split_bleu` (all scores from 0 to 100), `length_ratio` (tokens of the
        translations / tokens of the references, as `bleu` counts them) and `brevity_penalty`.

    Raises:
        UserInputError: the lists are empty or differ in length, or sacrebleu does not know the
            tokenizer.

    Example:
        >>> scores = system_scores(["ein Haus am See"], ["ein kleines Haus am See"])
        >>> scores["length_ratio"]
        0.8
    """
    check_paired(hypotheses, references)
    metric = bleu_metric(tokenize)
    score = metric.corpus_score(hypotheses, [references])
    chrf_score, chrf_signature = chrf(hypotheses, references)
    return {
        "bleu": score.score,
        "bleu_signature": str(metric.get_signature()),
        "chrf": chrf_score,
        "chrf_signature": chrf_signature,
        "tokenized_compound_split_bleu": tokenized_compound_split_bleu(
            hypotheses, references, language=language, tokenized=tokenize == "none"
        ),
        "length_ratio": score.ratio,
        "brevity_penalty": score.bp,
    }

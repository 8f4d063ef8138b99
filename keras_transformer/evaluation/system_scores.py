"""The scores of one system's translations."""

from keras_transformer.evaluation.bleu import bleu_metric, check_paired
from keras_transformer.evaluation.chrf import chrf
from keras_transformer.evaluation.tokenized_compound_split_bleu import (
    tokenized_compound_split_bleu,
)


def system_scores(hypotheses, references, *, tokenize="13a", language="de"):
    """Every score of a system that follows from its translations and the references.

    Args:
        hypotheses: list of strings, the translations.
        references: list of strings, one a hypothesis.
        tokenize: sacrebleu's tokenizer; `"none"` says that the text is in Moses tokens already,
            for both kinds of BLEU.
        language: code of the language, for the Moses tokenizer.

    Returns:
        A dict fit for JSON: `bleu`, `bleu_signature`, `chrf`, `chrf_signature`,
        `tokenized_compound_split_bleu` (all scores from 0 to 100), `length_ratio` (tokens of the
        translations / tokens of the references, both as `bleu` counts them) and the
        `brevity_penalty` that follows from it.

    Raises:
        UserInputError: there is nothing to score, the lists differ in length, or sacrebleu has no
            such tokenizer.

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

"""All scores of one system's translations, and BLEU with compounds split, as the paper's are."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import sacrebleu
from sacremoses import MosesTokenizer

from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.scores import bleu_metric, check_paired, chrf

HYPHEN = re.compile(r"(\S)-(\S)")


def tokenized_compound_split_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "de",
    tokenized: bool = False,
) -> float:
    """Compute BLEU of tokenized text with compounds split at their hyphens.

    Both sides are tokenized by the Moses tokenizer, `(\\S)-(\\S)` becomes
    `\\1 ##AT##-##AT## \\2`, and BLEU is that of multi-bleu.perl: cased, four n-gram orders, without
    smoothing. The published scores on newstest2014 (27.3 and 28.4 in the paper) are of this kind.
    They depend on the tokenizer and are usually higher than sacrebleu's, so report them only
    together with `bleu`.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.
        language: code of the language, for the tokenizer's list of abbreviations. As in Moses,
            languages without one get the English list.
        tokenized: whether the text is in Moses tokens already, separated by spaces.

    Returns:
        BLEU from 0 to 100.

    Raises:
        UserInputError: the lists are empty or differ in length, or `language` is not a code of two
            or three letters.

    Example:
        >>> tokenized_compound_split_bleu(["Der neue E-Mail-Server."], ["Der neue E-Mail-Server."])
        100.0

    Reference:
        Wu et al., 2016, "Google's Neural Machine Translation System"; Vaswani et al., 2017, and
        the script get_ende_bleu.sh of their tensor2tensor; Post, 2018, for why it misleads.
    """
    check_paired(hypotheses, references)
    check_language(language)
    tokenize = str if tokenized else _moses_tokenizer(language)
    metric = sacrebleu.BLEU(tokenize="none", smooth_method="none", force=True)
    hypotheses, references = (
        [HYPHEN.sub(r"\1 ##AT##-##AT## \2", tokenize(line)) for line in lines]
        for lines in (hypotheses, references)
    )
    # Sacrebleu's rounding can exceed 100.
    return min(metric.corpus_score(hypotheses, [references]).score, 100.0)


def check_language(language: str) -> None:
    """Require the form of an ISO 639 code."""
    if not re.fullmatch(r"[a-z]{2,3}", language):
        raise UserInputError(
            "`language` must be a code of two or three small letters, such as de. "
            f"Received: language={language!r}"
        )


def _moses_tokenizer(language: str) -> Callable[[str], str]:
    tokenizer = MosesTokenizer(lang=language)
    return lambda line: tokenizer.tokenize(line, return_str=True, escape=False)


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

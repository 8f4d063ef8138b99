"""Scores of translations: BLEU and chrF as sacrebleu computes them, exact match, perplexity."""

import contextlib
import math
import socket
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import sacrebleu

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import UserInputError
from keras_transformer.runs.environment import machine, package_versions

_NETWORK_SECONDS = 30  # how long to wait for a silent server


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> tuple[float, str]:
    """Compute corpus BLEU with sacrebleu.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.
        tokenize: sacrebleu's tokenizer: `"13a"` for plain text, `"none"` for text in Moses tokens.
        lowercase: whether to ignore case.

    Returns:
        `(score, signature)`: BLEU from 0 to 100, and sacrebleu's signature of how it was computed.

    Raises:
        UserInputError: the lists are empty or differ in length, or sacrebleu does not know the
            tokenizer.

    Example:
        >>> score, signature = bleu(["ein kleines Haus am See"], ["ein kleines Haus am See"])
        >>> round(score, 6)
        100.0

    Reference:
        Papineni et al., 2002; Post, 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    check_paired(hypotheses, references)
    metric = bleu_metric(tokenize, lowercase)
    score = metric.corpus_score(hypotheses, [references]).score
    return score, str(metric.get_signature())


def bleu_metric(tokenize: str = "13a", lowercase: bool = False) -> sacrebleu.BLEU:
    """Return sacrebleu's metric for `bleu`; unavailable tokenizers raise a UserInputError."""
    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        names = ", ".join(sacrebleu.BLEU.TOKENIZERS)
        raise UserInputError(f"`tokenize` must be one of {names}. Received: tokenize={tokenize!r}")
    try:
        with _network_timeout(_NETWORK_SECONDS):
            # `force` only silences sacrebleu's advice to detokenize.
            return sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    except (ImportError, RuntimeError) as error:  # names the package that has the tokenizer
        raise UserInputError(f"tokenize={tokenize!r}: {' '.join(str(error).split())}") from error
    except (OSError, SystemExit) as error:
        raise UserInputError(
            f"tokenize={tokenize!r}: sacrebleu cannot download or read its model: {error}"
        ) from error


@contextlib.contextmanager
def _network_timeout(seconds: float) -> Iterator[None]:
    """Limit the waiting time of new connections, for which sacrebleu sets no limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def check_paired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Require lists of as many hypotheses as references, and at least one of each."""
    check_no_string("hypotheses", hypotheses)
    check_no_string("references", references)
    if len(hypotheses) != len(references) or not hypotheses:
        raise UserInputError(
            "`hypotheses` and `references` must have the same length, at least 1. "
            f"Received: {len(hypotheses)} hypotheses, {len(references)} references"
        )


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


def score_record(
    *, seconds: float, target_tokens_per_second: float, command: str, **results: object
) -> dict[str, Any]:
    """Make the content of a run's `scores.json`.

    Args:
        seconds: duration of the training.
        target_tokens_per_second: target tokens trained on per second, without padding.
        command: the command line of the run.
        **results: JSON-compatible results, such as `bleu` and sacrebleu's `signature` of it.

    Returns:
        A JSON-compatible dictionary of these, `versions` and `machine`.
    """
    return {
        **results,
        "seconds": seconds,
        "target_tokens_per_second": target_tokens_per_second,
        "command": command,
        "versions": package_versions(),
        "machine": machine(),
    }

"""BLEU as sacrebleu computes it."""

import contextlib
import socket

import sacrebleu

from keras_transformer.errors import UserInputError

_NETWORK_SECONDS = 30  # how long a server may say nothing


def bleu(hypotheses, references, tokenize="13a", lowercase=False):
    """Corpus BLEU and the signature that says how it was computed.

    Args:
        hypotheses: list of strings, the translations.
        references: list of strings, one a hypothesis.
        tokenize: sacrebleu's tokenizer: `"13a"` for plain text, `"none"` for text in Moses tokens.
        lowercase: compare without case.

    Returns:
        `(score, signature)`: BLEU from 0 to 100, and sacrebleu's signature.

    Raises:
        UserInputError: there is nothing to score, the lists differ in length, or sacrebleu has no
            such tokenizer.

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


def bleu_metric(tokenize="13a", lowercase=False):
    """Sacrebleu's metric as `bleu` uses it; UserInputError for a tokenizer it cannot give."""
    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        names = ", ".join(sacrebleu.BLEU.TOKENIZERS)
        raise UserInputError(f"`tokenize` must be one of {names}. Received: tokenize={tokenize!r}")
    try:
        with _network_timeout(_NETWORK_SECONDS):
            # `force` only drops sacrebleu's advice to detokenize, which "none" has decided already.
            return sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    except (ImportError, RuntimeError) as error:  # a tokenizer of another package: it says which
        raise UserInputError(f"tokenize={tokenize!r}: {' '.join(str(error).split())}") from error
    except (OSError, SystemExit) as error:
        raise UserInputError(
            f"tokenize={tokenize!r}: sacrebleu cannot download its model, or not read it: {error}"
        ) from error


@contextlib.contextmanager
def _network_timeout(seconds):
    """Let no connection that is opened here wait for ever: sacrebleu sets no limit of its own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def check_paired(hypotheses, references):
    """Require as many hypotheses as references, and at least one."""
    if len(hypotheses) != len(references) or not hypotheses:
        raise UserInputError(
            "`hypotheses` and `references` must have the same length, at least 1. "
            f"Received: {len(hypotheses)} hypotheses, {len(references)} references"
        )

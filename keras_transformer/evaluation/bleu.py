"""BLEU as sacrebleu computes it."""

import contextlib
import socket
from collections.abc import Iterator, Sequence

import sacrebleu

from keras_transformer.argument_checks import check_no_string
from keras_transformer.errors import UserInputError

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

"""Scores of translations by sacrebleu, perplexity, and paired bootstrap resampling.

`SCORES` describes each score for verbs, records and reports. Its names are choices of flags, so
sacrebleu, which is slow to import, is imported only where it is needed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import math
import os
import re
import socket
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.argument_checks import check_no_string, check_positive_int
from keras_transformer.errors import UserInputError, refuse

if TYPE_CHECKING:
    import sacrebleu
    from sacrebleu.metrics.base import Metric

_NETWORK_SECONDS = 30  # how long to wait for a silent server
HYPHEN = re.compile(r"(\S)-(\S)")


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
        tokenize: sacrebleu's tokenizer: `"13a"` for plain text, `"none"` for Moses-tokenized text.
        lowercase: whether to ignore case.

    Returns:
        `(score, signature)`: BLEU from 0 to 100, and sacrebleu's signature of how it was computed.

    Raises:
        UserInputError: the lists are empty or differ in length, or sacrebleu does not support the
            tokenizer.

    Example:
        >>> score, signature = bleu(["ein kleines Haus am See"], ["ein kleines Haus am See"])
        >>> round(score, 6)
        100.0

    Reference:
        Papineni et al., 2002; Post, 2018, "A Call for Clarity in Reporting BLEU Scores".
    """
    found, signature = _measured(bleu_metric(tokenize, lowercase), hypotheses, references)
    return found.score, signature


def bleu_metric(tokenize: str = "13a", lowercase: bool = False) -> sacrebleu.BLEU:
    """Return sacrebleu's metric for `bleu`; unavailable tokenizers raise a UserInputError."""
    import sacrebleu

    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        refuse("tokenize", f"be one of {', '.join(sacrebleu.BLEU.TOKENIZERS)}", tokenize)
    try:
        with _network_timeout(_NETWORK_SECONDS):
            # `force` only silences sacrebleu's advice to detokenize.
            return sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    except (ImportError, RuntimeError) as error:  # names the package with the tokenizer
        raise UserInputError(f"tokenize={tokenize!r}: {' '.join(str(error).split())}") from error
    except (OSError, SystemExit) as error:
        raise UserInputError(
            f"tokenize={tokenize!r}: sacrebleu cannot download or read its model: {error}"
        ) from error


@contextlib.contextmanager
def _network_timeout(seconds: float) -> Iterator[None]:
    """Limit how long new connections wait, because sacrebleu sets no limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def check_paired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Require equal numbers of hypotheses and references, and at least one of each."""
    check_no_string("hypotheses", hypotheses)
    check_no_string("references", references)
    if len(hypotheses) != len(references) or not hypotheses:
        raise UserInputError(
            "`hypotheses` and `references` must have the same length, at least 1. "
            f"Received: {len(hypotheses)} hypotheses, {len(references)} references"
        )


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Compute corpus chrF2 (only characters, beta 2, cased) with sacrebleu.

    White space is ignored, so Moses-tokenized text gets the same score as plain text.

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
    found, signature = _measured(METRICS["chrf"]("13a"), hypotheses, references)
    return found.score, signature


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
        log_probs: natural-log probabilities of sentences, as returned by `Translator.score`.
        num_tokens: number of tokens in all sentences, including EOS.

    Returns:
        The perplexity; inf if it is larger than any float, for example after training has diverged.

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
    """Create the content of a run's `scores.json`.

    Args:
        seconds: duration of the training.
        target_tokens_per_second: target tokens trained on per second, without padding.
        command: the command line of the run.
        **results: JSON-compatible results, such as `bleu` and its sacrebleu `signature`.

    Returns:
        A JSON-compatible dictionary of the arguments, `versions` and `machine`.
    """
    from keras_transformer.runs.run_records import machine, package_versions  # imports NumPy

    return {
        **results,
        "seconds": seconds,
        "target_tokens_per_second": target_tokens_per_second,
        "command": command,
        "versions": package_versions(),
        "machine": machine(),
    }


def tokenized_compound_split_bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    language: str = "de",
    tokenized: bool = False,
) -> float:
    """Compute BLEU of tokenized text with compounds split at hyphens.

    Both sides are tokenized by the Moses tokenizer, and `(\\S)-(\\S)` becomes
    `\\1 ##AT##-##AT## \\2`. BLEU is computed as in multi-bleu.perl: cased, four n-gram orders,
    without smoothing. The published scores on newstest2014 (27.3 and 28.4 in the paper) are of this
    kind. They depend on the tokenizer and are usually higher than sacrebleu's scores, so report
    them only together with `bleu`.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.
        language: code of the language, for the tokenizer's list of abbreviations. As in Moses,
            languages without a list get the English list.
        tokenized: whether the text is already Moses tokens separated by spaces.

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
        the script get_ende_bleu.sh in their tensor2tensor; Post, 2018, for why it misleads.
    """
    import sacrebleu

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
        refuse("language", "be a code of two or three lowercase letters, such as de", language)


def _moses_tokenizer(language: str) -> Callable[[str], str]:
    from sacremoses import MosesTokenizer

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
        tokenize: sacrebleu's tokenizer; `"none"` for Moses-tokenized text, for both kinds of BLEU.
        language: code of the language, for the Moses tokenizer.

    Returns:
        A JSON-compatible dictionary of each score of sacrebleu in `SCORES` with its signature, such
        as `bleu` and `bleu_signature`; `tokenized_compound_split_bleu` (from 0 to 100);
        `length_ratio` (tokens in the translations / tokens in the references, as `bleu` counts
        them) and `brevity_penalty`.

    Raises:
        UserInputError: the lists are empty or differ in length, or sacrebleu does not support the
            tokenizer.

    Example:
        >>> scores = system_scores(["ein Haus am See"], ["ein kleines Haus am See"])
        >>> scores["length_ratio"]
        0.8
    """
    found = corpus_scores(hypotheses, references, tokenize)
    scores: dict[str, Any] = {}
    for name, (result, signature) in found.items():
        scores |= {name: result.score, f"{name}_signature": signature}
    bleu_result, _ = found["bleu"]
    return {
        **scores,
        "tokenized_compound_split_bleu": tokenized_compound_split_bleu(
            hypotheses, references, language=language, tokenized=tokenize == "none"
        ),
        "length_ratio": bleu_result.ratio,
        "brevity_penalty": bleu_result.bp,
    }


def corpus_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokenize: str = "13a"
) -> dict[str, tuple[Any, str]]:
    """Return sacrebleu's result and signature for each of its scores; see `system_scores`."""
    return {
        name: _measured(make(tokenize), hypotheses, references) for name, make in METRICS.items()
    }


def _measured(
    metric: Metric, hypotheses: Sequence[str], references: Sequence[str]
) -> tuple[Any, str]:
    check_paired(hypotheses, references)
    result = metric.corpus_score(hypotheses, [references])
    return result, str(metric.get_signature())


def _of_sacrebleu(name: str) -> Callable[[str], Metric]:
    """The constructor of a metric without a choice of tokenizer."""
    return lambda tokenize: getattr(importlib.import_module("sacrebleu"), name)()


@dataclasses.dataclass(frozen=True)
class Score:
    """The description of a score for verbs, records and reports.

    Args:
        title: its name in tables.
        form: the format of its value in tables.
        metric: creates sacrebleu's metric, given BLEU's tokenizer; None for other scores.
        note: the text in a report instead of sacrebleu's signature.
        lower_is_better: whether a lower value is better.
    """

    title: str
    form: str = ".2f"
    metric: Callable[[str], Metric] | None = None
    note: str | None = None
    lower_is_better: bool = False

    def goodness(self, value: float) -> float:
        """Return a number that is larger if the score is better."""
        return -value if self.lower_is_better else value


# In the order of tables. The names are the keys in scores.json and in the output of `evaluate
# --json`.
SCORES = {
    "bleu": Score("BLEU", metric=bleu_metric),
    "chrf": Score("chrF", metric=_of_sacrebleu("CHRF")),
    "ter": Score("TER", metric=_of_sacrebleu("TER"), lower_is_better=True),
    "tokenized_compound_split_bleu": Score("tok. BLEU", note="tokenized, compounds split"),
    "exact_match": Score("exact match", ".1%", note="equal to the reference"),
    "length_ratio": Score("length ratio", ".3f"),
    "brevity_penalty": Score("brevity", ".3f"),
    "perplexity": Score("perplexity", ".3f", lower_is_better=True),
}
# The scores of sacrebleu, with their constructors, given BLEU's tokenizer.
METRICS = {name: score.metric for name, score in SCORES.items() if score.metric}


def signature_key(name: str) -> str:
    """The key in scores.json of the signature of one of `METRICS`."""
    return "signature" if name == "bleu" else f"{name}_signature"


def main_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The entry of a text in `scores.json`, with the signature of BLEU."""
    of_bleu, *others = SCORES
    shown = of_bleu, signature_key(of_bleu), *others, "evaluated_on"
    return {name: scores[name] for name in shown if scores.get(name) is not None}


def recorded_rows(scores: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Title, value, and signature or note of each score in scores.json that describes a text.

    Example:
        >>> recorded_rows({"bleu": 27.3, "signature": "nrefs:1", "perplexity": 4.1})
        [('BLEU', '27.30', 'nrefs:1')]
    """
    return [
        (score.title, format(scores[name], score.form), note)
        for name, score in SCORES.items()
        if scores.get(name) is not None
        and (note := scores[signature_key(name)] if score.metric else score.note)
    ]


SEED_VARIABLE = "SACREBLEU_SEED"


def paired_bootstrap(
    hypotheses: Sequence[str],
    baseline: Sequence[str],
    references: Sequence[str],
    *,
    tokenize: str = "13a",
    samples: int = 1000,
    seed: int = 12345,
) -> dict[str, Any]:
    """Compare two systems with a paired bootstrap for each of sacrebleu's scores.

    Both systems are scored on the same resampled test sets.

    Args:
        hypotheses: the translations of the system.
        baseline: the translations of the system to compare it with.
        references: the references, one for each translation.
        tokenize: sacrebleu's tokenizer.
        samples: number of resampled test sets.
        seed: seed of the resampling, a positive integer.

    Returns:
        A JSON-compatible dictionary with `samples`, `seed`, and a dictionary for each score of
        sacrebleu that `system_scores` returns, such as `bleu` and `chrf`:

        - `score`, `mean`, `confidence_interval`: the system's score on the test set, the mean score
          over the samples, and half the width of the 95 % interval around that mean;
        - `baseline_score`, `baseline_mean`, `baseline_confidence_interval`: the same for the
          baseline;
        - `p_value`: probability of a difference at least as large by chance; 1 for equal scores.

    Raises:
        ValueError: `samples` or `seed` is not a positive integer.
        UserInputError: the lists are empty or differ in length, or sacrebleu does not support the
            tokenizer.

    Example:
        >>> good, bad = ["ein kleines Haus am See"] * 9, ["das große Auto vor Ort"] * 9
        >>> paired_bootstrap(good, bad, good, samples=99)["bleu"]["p_value"]
        0.01

    Reference:
        Koehn, 2004, "Statistical Significance Tests for Machine Translation Evaluation".
    """
    from sacrebleu.significance import PairedTest

    check_positive_int("samples", samples)
    check_positive_int("seed", seed)  # sacrebleu treats 0 as no seed
    samples, seed = int(samples), int(seed)
    check_paired(hypotheses, references)
    check_paired(baseline, references)
    with _sacrebleu_seed(seed):
        test = PairedTest(
            [("baseline", baseline), ("system", hypotheses)],
            {name: make(tokenize) for name, make in METRICS.items()},
            [references],
            test_type="bs",
            n_samples=samples,
        )
        _, results = test()
    _, *pairs = results.values()  # the systems' names; then, by sacrebleu's names, each score
    compared = {name: _comparison(*pair) for name, pair in zip(METRICS, pairs, strict=True)}
    return {"samples": samples, "seed": seed, **compared}


def _comparison(baseline: Any, system: Any) -> dict[str, float]:
    """Two results of sacrebleu as one dictionary of floats."""
    values = {f"baseline_{name}": value for name, value in _estimate(baseline).items()}
    # Sacrebleu would report equal systems as significantly different.
    p_value = float(system.p_value) if system.score != baseline.score else 1.0
    return {**_estimate(system), **values, "p_value": p_value}


def _estimate(result: Any) -> dict[str, float]:
    return {
        "score": float(result.score),
        "mean": float(result.mean),
        "confidence_interval": float(result.ci),
    }


@contextlib.contextmanager
def _sacrebleu_seed(seed: int) -> Iterator[None]:
    """Set sacrebleu's seed, which it reads from the environment."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before

"""Translation scores: sacrebleu metrics, perplexity and paired bootstrap resampling.

`SCORES` describes each score for commands, records and reports. Its names are flag choices, so
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

_NETWORK_SECONDS = 30  # timeout for a server that does not respond
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
        `(score, signature)`: BLEU from 0 to 100, and sacrebleu's signature for the score.

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
    """Return sacrebleu's BLEU metric. Raise a UserInputError if the tokenizer is unavailable."""
    import sacrebleu

    if tokenize not in sacrebleu.BLEU.TOKENIZERS:
        refuse("tokenize", f"be one of {', '.join(sacrebleu.BLEU.TOKENIZERS)}", tokenize)
    try:
        with _network_timeout(_NETWORK_SECONDS):
            # `force` only silences sacrebleu's advice to detokenize.
            return sacrebleu.BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    except (ImportError, RuntimeError) as error:  # names the package that provides the tokenizer
        raise UserInputError(f"tokenize={tokenize!r}: {' '.join(str(error).split())}") from error
    except (OSError, SystemExit) as error:
        raise UserInputError(
            f"tokenize={tokenize!r}: sacrebleu cannot download or read its model: {error}"
        ) from error


@contextlib.contextmanager
def _network_timeout(seconds: float) -> Iterator[None]:
    """Set a timeout for new connections, because sacrebleu sets none."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


def check_paired(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Require equal, nonzero numbers of hypotheses and references."""
    check_no_string("hypotheses", hypotheses)
    check_no_string("references", references)
    if len(hypotheses) != len(references) or not hypotheses:
        raise UserInputError(
            "`hypotheses` and `references` must have the same length, at least 1. "
            f"Received: {len(hypotheses)} hypotheses, {len(references)} references"
        )


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> tuple[float, str]:
    """Compute corpus chrF2 (characters only, beta 2, cased) with sacrebleu.

    White space is ignored, so Moses-tokenized text has the same score as plain text.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.

    Returns:
        `(score, signature)`: chrF from 0 to 100, and sacrebleu's signature for the score.

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
    """Compute the fraction of translations that are identical to their reference.

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
        The perplexity, or inf if it is too large for a float, as after training has diverged.

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
    """Create the contents of a run's `scores.json`.

    Args:
        seconds: duration of training.
        target_tokens_per_second: target tokens trained on per second, without padding.
        command: the command line of the run.
        **results: JSON-compatible results, such as `bleu` and its sacrebleu `signature`.

    Returns:
        A JSON-compatible dictionary with the arguments, `versions` and `machine`.
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
    """Compute BLEU on tokenized text with compounds split at hyphens.

    Both sides are tokenized by the Moses tokenizer, and `(\\S)-(\\S)` becomes
    `\\1 ##AT##-##AT## \\2`. BLEU is computed as in multi-bleu.perl: cased, with n-grams up to
    length 4 and without smoothing. The published newstest2014 scores (27.3 and 28.4 in the paper)
    were computed this way. These scores depend on the tokenizer and are usually higher than
    sacrebleu's scores, so report them only together with `bleu`.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.
        language: language code that selects the tokenizer's list of abbreviations. As in Moses,
            languages without a list use the English list.
        tokenized: whether the text already consists of Moses tokens separated by spaces.

    Returns:
        BLEU from 0 to 100.

    Raises:
        UserInputError: the lists are empty or differ in length, or `language` is not a two- or
            three-letter code.

    Example:
        >>> tokenized_compound_split_bleu(["Der neue E-Mail-Server."], ["Der neue E-Mail-Server."])
        100.0

    Reference:
        Wu et al., 2016, "Google's Neural Machine Translation System"; Vaswani et al., 2017, and
        the script get_ende_bleu.sh in their tensor2tensor; Post, 2018, on why it can mislead.
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
    """Require a string in the format of an ISO 639 code."""
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
    """Compute all scores for the translations of a system.

    Args:
        hypotheses: the translations.
        references: the references, one for each translation.
        tokenize: sacrebleu's tokenizer; `"none"` for Moses-tokenized text, for both BLEU scores.
        language: language code for the Moses tokenizer.

    Returns:
        A JSON-compatible dictionary with each sacrebleu score in `SCORES` and its signature, such
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
    """Return the result and signature of each sacrebleu score; see `system_scores`."""
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
    """Return the constructor of a metric whose tokenizer is fixed."""
    return lambda tokenize: getattr(importlib.import_module("sacrebleu"), name)()


@dataclasses.dataclass(frozen=True)
class Score:
    """The description of a score for commands, records and reports.

    Args:
        title: name of the score in tables.
        form: format of the value in tables.
        metric: creates the sacrebleu metric from BLEU's tokenizer; None for other scores.
        note: text that replaces sacrebleu's signature in a report.
        lower_is_better: whether a lower value is better.
    """

    title: str
    form: str = ".2f"
    metric: Callable[[str], Metric] | None = None
    note: str | None = None
    lower_is_better: bool = False

    def goodness(self, value: float) -> float:
        """Return a number that is larger for better values of the score."""
        return -value if self.lower_is_better else value


# In table order. The names are the keys in scores.json and in the output of `evaluate --json`.
SCORES = {
    "bleu": Score("BLEU", metric=bleu_metric),
    "chrf": Score("chrF", metric=_of_sacrebleu("CHRF")),
    "ter": Score("TER", metric=_of_sacrebleu("TER"), lower_is_better=True),
    "tokenized_compound_split_bleu": Score("tok. BLEU", note="tokenized, compounds split"),
    "exact_match": Score("exact match", ".1%", note="equal to the reference"),
    "length_ratio": Score("length ratio", ".3f"),
    "brevity_penalty": Score("brevity", ".3f"),
    "perplexity": Score("perplexity", ".3f", lower_is_better=True),
    "alignment_error_rate": Score("AER", ".3f", lower_is_better=True),
}
# The constructors of the sacrebleu scores, which accept BLEU's tokenizer.
METRICS = {name: score.metric for name, score in SCORES.items() if score.metric}


def signature_key(name: str) -> str:
    """Return the key in scores.json for the signature of a metric in `METRICS`."""
    return "signature" if name == "bleu" else f"{name}_signature"


def main_scores(scores: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `scores.json` entry of a text, with the BLEU signature."""
    of_bleu, *others = SCORES
    shown = of_bleu, signature_key(of_bleu), *others, "evaluated_on"
    return {name: scores[name] for name in shown if scores.get(name) is not None}


def recorded_rows(scores: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return the title, value, and signature or note of each score with a signature or a note.

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
    """Compare two systems using a paired bootstrap for each sacrebleu score.

    Both systems are scored on the same resampled test sets.

    Args:
        hypotheses: the translations of the system.
        baseline: the translations of the baseline system.
        references: the references, one for each translation.
        tokenize: sacrebleu's tokenizer.
        samples: number of resampled test sets.
        seed: seed of the resampling, a positive integer.

    Returns:
        A JSON-compatible dictionary with `samples`, `seed`, and a dictionary for each sacrebleu
        score returned by `system_scores`, such as `bleu` and `chrf`:

        - `score`, `mean`, `confidence_interval`: the system's score on the test set, the mean score
          over the samples, and half the width of the 95% confidence interval around the mean;
        - `baseline_score`, `baseline_mean`, `baseline_confidence_interval`: the corresponding
          values for the baseline;
        - `p_value`: probability of an equal or larger difference by chance; 1 for equal scores.

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
    _, *pairs = results.values()  # system names, then each score by its sacrebleu name
    compared = {name: _comparison(*pair) for name, pair in zip(METRICS, pairs, strict=True)}
    return {"samples": samples, "seed": seed, **compared}


def _comparison(baseline: Any, system: Any) -> dict[str, float]:
    """Convert two sacrebleu results to one dictionary of floats."""
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
    """Set the seed that sacrebleu reads from the environment."""
    before = os.environ.get(SEED_VARIABLE)
    os.environ[SEED_VARIABLE] = str(seed)
    try:
        yield
    finally:
        if before is None:
            del os.environ[SEED_VARIABLE]
        else:
            os.environ[SEED_VARIABLE] = before

"""Find the search options that produce the best translations of a dev text."""

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, Unpack

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import refuse
from keras_transformer.evaluation.scores import METRICS, SCORES, check_paired
from keras_transformer.search_options import MOST_ALPHAS, SearchKeywords, SearchOptions

ALPHAS = tuple(round(0.1 * i, 1) for i in range(21))  # 0.0, 0.1, ..., 2.0


class TunableTranslator(Protocol):
    """The methods and attributes of a `Translator` that `tune_search` needs."""

    search_options: SearchOptions

    def with_search(self, **options: Unpack[SearchKeywords]) -> "TunableTranslator": ...

    def translate_with_alphas(
        self, sentences: Sequence[str], alphas: Sequence[float], progress: bool = False
    ) -> list[list[str]]: ...


@dataclasses.dataclass(frozen=True)
class SearchScore:
    """The score of a set of search options on a dev text.

    Args:
        alpha, beam_size, extra_length: see `SearchOptions`.
        score: the value of the tuning `metric`.
        length_ratio: tokens in the translations / tokens in the references, as BLEU counts them.
    """

    alpha: float
    beam_size: int
    extra_length: int
    score: float
    length_ratio: float

    @property
    def options(self) -> SearchKeywords:
        """The fields of `SearchOptions`."""
        return {
            "alpha": self.alpha,
            "beam_size": self.beam_size,
            "extra_length": self.extra_length,
        }


@dataclasses.dataclass(frozen=True)
class SearchTuning:
    """The result of `tune_search`.

    Args:
        metric: name of the score.
        signature: sacrebleu's signature for the score.
        sentences: number of sentences in the dev text.
        results: scores of all combinations that were tried.
        default: score of the search options before tuning.
        best: the entry of `results` with the best score.
    """

    metric: str
    signature: str
    sentences: int
    results: list[SearchScore]
    default: SearchScore
    best: SearchScore

    def as_dict(self) -> dict[str, Any]:
        """Return the record as a JSON-compatible dictionary."""
        return dataclasses.asdict(self)


def tune_search(
    translator: TunableTranslator,
    sources: Sequence[str],
    references: Sequence[str],
    *,
    alphas: Sequence[float] = ALPHAS,
    beam_sizes: Sequence[int] | None = None,
    extra_lengths: Sequence[int] | None = None,
    metric: str = "bleu",
    tokenize: str = "13a",
    progress: bool = False,
) -> SearchTuning:
    """Choose the search options with the best score on a dev text.

    A single decoding run covers all alphas if the results are exact (see
    `Translator.translate_with_alphas`). Each pair of beam size and extra length needs its own run.

    Args:
        translator: the translator, whose search options are the default.
        sources: source sentences of the dev text.
        references: reference translations of the sources.
        alphas: 1 to 500 length penalty exponents to try.
        beam_sizes: beam sizes to try; defaults to the translator's beam size.
        extra_lengths: extra lengths to try; defaults to the translator's extra length.
        metric: "bleu", "chrf" or another sacrebleu score returned by `system_scores`.
        tokenize: sacrebleu's tokenizer for BLEU and for the length ratio.
        progress: whether to show progress bars on stderr.

    Returns:
        A `SearchTuning`. If several combinations have the best score, the combination closest to
        the default wins, compared by beam size, then by extra length, then by alpha.

    Raises:
        UserInputError: the lists are empty or differ in length, an option is invalid, or sacrebleu
            does not support the tokenizer.
        ValueError: `metric` is unknown.

    Example:

    ```python
    tuning = tune_search(translator, dev_sources, dev_references, beam_sizes=[4, 8])
    translator = translator.with_search(**tuning.best.options)
    ```
    """
    check_one_of("metric", metric, METRICS)
    check_paired(sources, references)
    goodness, bleu = SCORES[metric].goodness, METRICS["bleu"](tokenize)
    scorer = bleu if metric == "bleu" else METRICS[metric](tokenize)

    @functools.cache  # different options often produce the same translations
    def score(*texts: str) -> tuple[float, float]:
        of_bleu: Any = bleu.corpus_score(texts, [references])
        found = of_bleu if scorer is bleu else scorer.corpus_score(texts, [references])
        return found.score, of_bleu.ratio

    present = translator.search_options
    alphas = _distinct("alphas", alphas)
    if len(alphas) > MOST_ALPHAS:
        refuse("alphas", f"be at most {MOST_ALPHAS} numbers", len(alphas))
    beam_sizes = [present.beam_size] if beam_sizes is None else beam_sizes
    extra_lengths = [present.extra_length] if extra_lengths is None else extra_lengths
    tried: dict[tuple[int, int], list[float]] = dict.fromkeys(
        itertools.product(
            _distinct("beam_sizes", beam_sizes), _distinct("extra_lengths", extra_lengths)
        ),
        alphas,
    )
    # The current options are always scored too.
    own = present.beam_size, present.extra_length
    searches = {**tried, own: _distinct("alphas", [*tried.get(own, []), present.alpha])}
    scores = _scores(translator, sources, searches, score, progress)
    results, default = [scores[pair][alpha] for pair in tried for alpha in alphas], scores[own]
    return SearchTuning(
        metric=metric,
        signature=str(scorer.get_signature()),
        sentences=len(sources),
        results=results,
        default=default[present.alpha],
        best=max(results, key=lambda one: (goodness(one.score), *_nearness(one, present))),
    )


def _scores(
    translator: TunableTranslator,
    sources: Sequence[str],
    searches: Mapping[tuple[int, int], Sequence[float]],
    score: Callable[..., tuple[float, float]],
    progress: bool,
) -> dict[tuple[int, int], dict[float, SearchScore]]:
    """Return scores keyed by beam size and extra length, then by alpha."""
    translators = {
        (beam_size, extra_length): translator.with_search(
            beam_size=beam_size, extra_length=extra_length
        )
        for beam_size, extra_length in searches
    }  # all options are checked before decoding starts
    scores = {}
    for pair, alphas in searches.items():
        found = translators[pair].translate_with_alphas(sources, alphas, progress)
        scores[pair] = {
            alpha: SearchScore(alpha, *pair, *score(*texts))
            for alpha, texts in zip(alphas, found, strict=True)
        }
    return scores


def _nearness(result: SearchScore, default: SearchOptions) -> tuple[float, float, float]:
    """Return how close a result is to the default. Larger values are closer."""
    return (
        -abs(result.beam_size - default.beam_size),
        -abs(result.extra_length - default.extra_length),
        -abs(result.alpha - default.alpha),
    )


def _distinct(name: str, values: Sequence[Any]) -> list[Any]:
    if not len(values):
        refuse(name, "contain at least one number", values)
    return list(dict.fromkeys(values))

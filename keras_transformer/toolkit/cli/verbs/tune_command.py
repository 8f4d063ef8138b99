"""`keras-transformer tune`: tune the search options of a run on a dev set."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from keras_transformer.argument_checks import positive_int
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.scores import METRICS, SCORES
from keras_transformer.files import find_output, require_standard_output, write_output
from keras_transformer.search_options import (
    END_OF_ALPHA,
    MOST_ALPHAS,
    SearchOptions,
)
from keras_transformer.text.text_lines import text_table
from keras_transformer.toolkit.cli.named_models import (
    NamedModels,
    add_batch_arguments,
    add_run_arguments,
    given_search,
    tell_search_taken,
)
from keras_transformer.toolkit.cli.program import add_flags, flag
from keras_transformer.toolkit.cli.text_streams import told_by_line

if TYPE_CHECKING:
    from keras_transformer.evaluation import SearchScore, SearchTuning
    from keras_transformer.runs.run_directory import RunDirectory


def alpha_list(text: str) -> list[float]:
    """Parse `FIRST:LAST:STEP`, including the last number, or a comma-separated list of numbers.

    Example:
        >>> alpha_list("0:0.5:0.1"), alpha_list("0.6,1")
        ([0.0, 0.1, 0.2, 0.3, 0.4, 0.5], [0.6, 1.0])
    """
    try:
        if ":" in text:
            first, last, step = (Decimal(part) for part in text.split(":"))
            if not (step > 0 and first <= last and (last - first) / step < MOST_ALPHAS):
                raise ValueError(text)
            numbers = [float(first + i * step) for i in range(int((last - first) / step) + 1)]
        else:
            numbers = [float(part) for part in text.split(",")]
    except (ValueError, ArithmeticError):
        numbers = []
    # This also refuses NaN.
    if not 0 < len(numbers) <= MOST_ALPHAS or not all(0 <= x < END_OF_ALPHA for x in numbers):
        raise argparse.ArgumentTypeError(
            f"must be FIRST:LAST:STEP or comma-separated numbers, at most {MOST_ALPHAS} from 0 and "
            f"below {END_OF_ALPHA}. Received: {text[:40]!r}"
        )
    return numbers


def integer_list(text: str) -> list[int]:
    """Parse a comma-separated list of integers.

    Example:
        >>> integer_list("4,5")
        [4, 5]
    """
    try:
        return [positive_int(part) for part in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise argparse.ArgumentTypeError(
            f"must be comma-separated positive integers. Received: {text[:40]!r}"
        ) from error


_TO_TRY = "to try, comma-separated; each requires a separate pass (default: the run's value)"


@dataclasses.dataclass(frozen=True)
class _Flags:
    """Flags for scoring."""

    source: str = flag("source sentences of a dev set, one per line, plain or .gz", metavar="FILE")
    reference: str = flag("reference translations, plain or .gz", metavar="FILE")
    metric: str = flag("score to optimize (default: %(default)s)", "bleu", choices=tuple(METRICS))
    tokenize: str = flag(
        "sacrebleu's tokenizer; use none for text that is already tokenized (default: 13a)",
        "13a",
        metavar="NAME",
    )
    alphas: list[float] = flag(
        "exponents of the length penalty to try, as FIRST:LAST:STEP or comma-separated numbers "
        "such as 0.6,1.0; trying all takes about as long as one (default: %(default)s)",
        "0:2:0.1",
        type=alpha_list,
        metavar="LIST",
    )
    beam_sizes: list[int] | None = flag(f"beam sizes {_TO_TRY}", type=integer_list, metavar="LIST")
    extra_lengths: list[int] | None = flag(
        f"extra lengths {_TO_TRY}", type=integer_list, metavar="LIST"
    )
    json: str | None = flag("write all scores to this JSON file", metavar="FILE")
    dry_run: bool = flag("print the scores without changing run.json", False)


_MEASURE = ("source", "reference", "metric", "tokenize", "alphas", "beam_sizes", "extra_lengths")
# Flags that only scoring needs.
_OF_A_MEASUREMENT = (
    *_MEASURE,
    *("checkpoint", "target_language", "batch_size", "max_source_length", "json"),
)


HELP = "tune the length penalty of a run or an ensemble on a dev set"
DESCRIPTION = """Translate a dev set with several length penalties, and store the one with the best
score in the run. All verbs and exports then use it unless a flag overrides it (CTranslate2 and
Marian use a different form of length penalty). Beam sizes and extra lengths are tried if you list
them. For an ensemble, `--dry-run` prints the flags to use."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    add_run_arguments(parser)
    add_flags(parser, _Flags, *_MEASURE)
    add_flags(parser, NamedModels, "target_language")
    add_batch_arguments(parser)
    add_flags(parser, _Flags, "json")
    either = parser.add_mutually_exclusive_group()
    add_flags(either, _Flags, "dry_run")
    either.add_argument(
        "--reset",
        action="store_true",
        help="restore the search options from before the first `tune`",
    )


def tune(values: argparse.Namespace) -> None:
    """Run the verb."""
    check_flags(values)
    models = NamedModels.of(values)
    from keras_transformer.runs.run_checkpoints import run_lock
    from keras_transformer.runs.run_directory import RunDirectory

    run, *others = map(RunDirectory.open, models.runs)
    require_standard_output()
    if not values.dry_run:
        with run_lock(run.path):  # report early if the run is in use or read-only
            pass
    if values.reset:
        _reset(run)
        return
    several = {"beam_size": values.beam_sizes, "extra_length": values.extra_lengths}
    tried = ["alpha", *(name for name, given in several.items() if given)]
    tell_search_taken(models.runs, given_search(values), tried)
    tuning = _tuning(values, models, [run, *others])
    print(tuning_text(values, tuning))
    if not values.dry_run:
        with run_lock(run.path):
            run.write_search_defaults(tuning.best.options)
    if values.json is not None:
        content: dict[str, Any] = {"runs": models.runs} if others else {"run": models.runs[0]}
        content |= {"source": values.source, "reference": values.reference}
        content |= {"written": not values.dry_run, **tuning.as_dict()}
        write_output(values.json, f"{json.dumps(content, indent=2)}\n", "--json")
    if models.is_ensemble:
        best = tuning.best
        print(
            f"Flags for an ensemble with this search: --alpha {best.alpha} "
            f"--beam-size {best.beam_size} --extra-length {best.extra_length}"
        )
    elif values.dry_run:
        print(f"{run.record_path} was not changed.")
    else:
        print(
            f"Written to {run.record_path}: all verbs and exports use this search unless a flag "
            f"overrides it. To undo it: keras-transformer tune {run.path} --reset"
        )


def check_flags(values: argparse.Namespace) -> None:
    """Check the flags.

    Either a dev set or `--reset` is required, but not both. The search options of an ensemble
    cannot be stored.

    Raises:
        UserInputError: the flags do not meet these requirements.
    """
    defaults: dict[str, Any] = {one.name: one.default for one in dataclasses.fields(_Flags)}
    defaults["alphas"] = alpha_list(defaults["alphas"])
    given = [name for name in _OF_A_MEASUREMENT if getattr(values, name) != defaults.get(name)]
    if values.reset and given:
        name = given[0].replace("_", "-")
        raise UserInputError(f"`--{name}` cannot be combined with `--reset`, which scores nothing.")
    if not values.reset and not {"source", "reference"} <= {*given}:
        raise UserInputError("`--source` and `--reference` must be given, or `--reset`.")
    if not NamedModels.of(values).is_ensemble:
        return
    if values.reset:
        raise UserInputError(
            f"`--reset` takes one RUN, without `--checkpoint`. Received: {' '.join(values.runs)}"
        )
    if not values.dry_run:
        raise UserInputError(
            "The search of an ensemble cannot be stored in a run: tune it with `--dry-run`, and "
            f"pass the printed values as flags. Received: {' '.join(values.runs)}"
        )


def _reset(run: "RunDirectory") -> None:
    """Restore and print the search options used before the first `tune`."""
    from keras_transformer.runs.run_checkpoints import run_lock

    if run.record().untuned_search is None:
        print(f"The search of {run.path} has not been tuned: nothing to undo.")
        return
    with run_lock(run.path):
        run.write_search_defaults(None)
    search = SearchOptions(**run.search_defaults())
    print(f"{run.record_path} has its earlier search options again: {_named(search)}.")


def _tuning(
    values: argparse.Namespace, models: NamedModels, runs: Sequence["RunDirectory"]
) -> "SearchTuning":
    """Score all combinations, after checking for errors that would otherwise occur later."""
    from keras_transformer.data.parallel_text import read_parallel_text
    from keras_transformer.evaluation.scores import bleu_metric

    bleu_metric(values.tokenize)
    if values.json is not None:
        find_output(values.json, "--json")
    sources, references = read_parallel_text(values.source, values.reference)
    for run in runs:
        run.load_tokenizers()  # refuses a parser's run, which has no target tokenizer
    translator = models.load(
        batches=2,  # minimum
        batch_size=models.batch_size,
        **given_search(values),
    )
    with told_by_line(0, values.source):
        translator.check_lengths(sources)
    from keras_transformer.evaluation import tune_search

    return tune_search(
        translator,
        sources,
        references,
        alphas=values.alphas,
        beam_sizes=values.beam_sizes,
        extra_lengths=values.extra_lengths,
        metric=values.metric,
        tokenize=values.tokenize,
        progress=sys.stderr.isatty(),
    )


def tuning_text(values: argparse.Namespace, tuning: "SearchTuning") -> str:
    """Format the scores as a table that marks the best result, then list the old and new search."""
    several: dict[str, Any] = {"beam": values.beam_sizes, "extra": values.extra_lengths}
    titles = [name for name, tried in several.items() if tried is not None]
    metric = SCORES[tuning.metric].title
    rows = [["", "alpha", *titles, metric, "length ratio"]]
    for one in tuning.results:
        sizes = {"beam": one.beam_size, "extra": one.extra_length}
        cells = [format(one.alpha, "g"), *(str(sizes[title]) for title in titles)]
        mark = "*" if one == tuning.best else ""
        rows.append([mark, *cells, f"{one.score:.2f}", f"{one.length_ratio:.3f}"])
    return "\n".join(
        [
            f"{values.source} -> {values.reference}: {tuning.sentences:,} sentences, {metric} "
            f"{tuning.signature}",
            text_table(rows, align="<" + ">" * (len(rows[0]) - 1)),
            f"before: {_scored(tuning.default, metric)}",
            f"chosen: {_scored(tuning.best, metric)}",
        ]
    )


def _scored(one: "SearchScore", metric: str) -> str:
    return f"{_named(one)}: {metric} {one.score:.2f}, length ratio {one.length_ratio:.3f}"


def _named(search: "SearchScore | SearchOptions") -> str:
    return (
        f"alpha {search.alpha:g}, beam size {search.beam_size}, extra length {search.extra_length}"
    )

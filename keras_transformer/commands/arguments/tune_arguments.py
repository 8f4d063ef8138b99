"""The flags of `keras-transformer tune`, and which of them go together."""

import argparse
import math
from decimal import Decimal

from keras_transformer.command_line.command_errors import positive_int
from keras_transformer.commands.arguments.model_arguments import (
    add_batch_arguments,
    add_run_arguments,
    add_target_language,
    is_ensemble,
)
from keras_transformer.errors import UserInputError
from keras_transformer.search_options import END_OF_ALPHA, MOST_ALPHAS

_DEFAULTS = {"metric": "bleu", "tokenize": "13a", "alphas": "0:2:0.1"}
# What only a measurement needs; None where `_DEFAULTS` has no value.
_OF_A_MEASUREMENT = (
    "source",
    "reference",
    "metric",
    "tokenize",
    "alphas",
    "beam_sizes",
    "extra_lengths",
    "checkpoint",
    "target_language",
    "batch_size",
    "max_source_length",
    "json",
)


def add_tune_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the verb to its parser."""
    add = parser.add_argument
    add_run_arguments(parser)
    add("--source", metavar="FILE", help="source sentences of a dev set, one a line, or .gz")
    add("--reference", metavar="FILE", help="their translations, or .gz")
    add(
        "--metric",
        choices=("bleu", "chrf"),
        default=_DEFAULTS["metric"],
        help="score that chooses (default: %(default)s)",
    )
    add(
        "--tokenize",
        default=_DEFAULTS["tokenize"],
        metavar="NAME",
        help="sacrebleu's tokenizer (default: 13a); none: the text is in Moses tokens already",
    )
    add(
        "--alphas",
        type=alpha_list,
        default=_DEFAULTS["alphas"],
        metavar="LIST",
        help="exponents of the length penalty to try, FIRST:LAST:STEP or numbers with commas such "
        "as 0.6,1.0; together they take about the time of one (default: %(default)s)",
    )
    for name, what in (("beam-sizes", "beam sizes"), ("extra-lengths", "extra lengths")):
        add(
            f"--{name}",
            type=integer_list,
            metavar="LIST",
            help=f"{what} to try, with commas; each takes a search of its own (default: the run's)",
        )
    add_target_language(parser)
    add_batch_arguments(parser)
    add("--json", metavar="FILE", help="write all scores here, for programs")
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--dry-run", action="store_true", help="print scores, write no run.json")
    either.add_argument(
        "--reset",
        action="store_true",
        help="restore the search that the run had before the first `tune`",
    )


def check_files_given(options: argparse.Namespace) -> None:
    """Require a dev set, or `--reset` alone."""
    defaults = {**_DEFAULTS, "alphas": alpha_list(_DEFAULTS["alphas"])}
    given = [name for name in _OF_A_MEASUREMENT if getattr(options, name) != defaults.get(name)]
    if options.reset and given:
        flag = given[0].replace("_", "-")
        raise UserInputError(f"`--{flag}` does not go with `--reset`, which measures nothing.")
    if not options.reset and not {"source", "reference"} <= {*given}:
        raise UserInputError("`--source` and `--reference` must be given, or `--reset`.")


def check_one_model(options: argparse.Namespace) -> None:
    """Refuse to write the search of an ensemble, which has no run of its own."""
    if is_ensemble(options) and options.reset:
        raise UserInputError(
            f"`--reset` takes one RUN, without `--checkpoint`. Received: {' '.join(options.runs)}"
        )
    if is_ensemble(options) and not options.dry_run:
        raise UserInputError(
            "An ensemble has no run to write its search into: tune it with `--dry-run`, and give "
            f"the values that are printed as flags. Received: {' '.join(options.runs)}"
        )


def alpha_list(text: str) -> list[float]:
    """The numbers of `FIRST:LAST:STEP`, the last included, or of a list with commas.

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
    if not 0 < len(numbers) <= MOST_ALPHAS or not all(_is_alpha(one) for one in numbers):
        raise argparse.ArgumentTypeError(
            f"must be FIRST:LAST:STEP or numbers with commas, at most {MOST_ALPHAS} from 0 and "
            f"below {END_OF_ALPHA}. Received: {text[:40]!r}"
        )
    return numbers


def integer_list(text: str) -> list[int]:
    """The integers of a list with commas.

    Example:
        >>> integer_list("4,5")
        [4, 5]
    """
    try:
        return [positive_int(part) for part in text.split(",")]
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"must be positive integers with commas. Received: {text[:40]!r}"
        ) from error


def _is_alpha(value: float) -> bool:
    return math.isfinite(value) and 0 <= value < END_OF_ALPHA

"""The flags of `SearchOptions`, for every verb that searches."""

import argparse
import dataclasses
from collections.abc import Callable, Collection
from typing import Any, cast

from keras_transformer.command_line.command_errors import (
    int_from_zero,
    number_from_zero,
    positive_int,
)
from keras_transformer.files.standard_streams import tell
from keras_transformer.search_options import (
    ENDINGS,
    LENGTH_PENALTIES,
    TRANSLATION,
    SearchKeywords,
    SearchOptions,
    search_over,
    search_record,
)
from keras_transformer.types import PathLike

_TYPES: dict[str, Callable[[str], Any]] = {
    "alpha": number_from_zero,
    "min_length": int_from_zero,
    "no_repeat_ngram": int_from_zero,
}
_CHOICES = {"length_penalty": LENGTH_PENALTIES, "ending": ENDINGS}


def add_search_arguments(
    parser: argparse.ArgumentParser, *names: str, defaults: SearchOptions = TRANSLATION
) -> None:
    """Add the flags of these fields of `SearchOptions`; they are None if not given.

    `defaults` are those that the help shows.
    """
    fields = {field.name: field for field in dataclasses.fields(SearchOptions)}
    for name in names:
        help_text = fields[name].metadata["help"].format(getattr(defaults, name))
        flag = "--" + name.replace("_", "-")
        if name in _CHOICES:
            parser.add_argument(flag, choices=_CHOICES[name], help=help_text)
            continue
        parser.add_argument(
            flag,
            type=_TYPES.get(name, positive_int),
            metavar="A" if name == "alpha" else "N",
            help=help_text,
        )


def search_of(options: argparse.Namespace, run: PathLike) -> SearchKeywords:
    """The fields of `SearchOptions` given on the command line, or else the run's own.

    A path without a run has no defaults here; opening it is what refuses it.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    directory = RunDirectory(run)
    defaults = directory.search_defaults() if directory.is_run() else {}
    return cast(SearchKeywords, search_over(defaults, given_search(options)))


def tell_search_taken(options: argparse.Namespace, tried: Collection[str] = ()) -> None:
    """Say which search an ensemble takes, where its runs differ in what no flag gives.

    It is the first one's. Where a path has no run, opening it is what refuses it.

    Args:
        options: the parsed command line.
        tried: fields of `SearchOptions` that take several values.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    runs = [RunDirectory(path) for path in options.runs]
    if len(runs) == 1 or not all(run.is_run() for run in runs):
        return
    first, *others = (search_record(SearchOptions(**run.search_defaults())) for run in runs)
    given = given_search(options)
    taken = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in first.items()
        if name not in {*given, *tried} and any(other[name] != value for other in others)
    ]
    if taken:
        tell(f"The runs' own searches differ: taking {', '.join(taken)} of {runs[0].path}.")


def settle_search(options: argparse.Namespace) -> None:
    """Fill in what the command line left to the run, so that a later `tune` does not change it."""
    for name, value in search_of(options, options.runs[0]).items():
        if hasattr(options, name):
            setattr(options, name, value)


def given_search(options: argparse.Namespace) -> SearchKeywords:
    """The fields of `SearchOptions` given on the command line, as keyword arguments."""
    names = [field.name for field in dataclasses.fields(SearchOptions)]
    values = {name: getattr(options, name, None) for name in names}
    given = {name: value for name, value in values.items() if value is not None}
    return cast(SearchKeywords, given)

"""The flags for `SearchOptions`, for every verb that searches."""

import argparse
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_non_negative_number,
    check_positive_number,
)
from keras_transformer.cli.program import (
    int_from_zero,
    number_from_zero,
    positive_int,
    positive_number,
)
from keras_transformer.files.standard_streams import note
from keras_transformer.search_options import (
    OPTIONS,
    TRANSLATION,
    SearchKeywords,
    SearchOptions,
    options_for,
    search_over,
    search_record,
)
from keras_transformer.types import PathLike

EXPORTED_SEARCH = options_for("export")
# The type of a flag, by the check of its option; all others are positive integers.
_TYPES: dict[Callable[[str, Any], None], Callable[[str], Any]] = {
    check_non_negative_int: int_from_zero,
    check_non_negative_number: number_from_zero,
    check_positive_number: positive_number,
}


def add_search_arguments(
    parser: argparse.ArgumentParser, *names: str, defaults: SearchOptions = TRANSLATION
) -> None:
    """Add flags for these fields of `SearchOptions`; a flag that is not given is None.

    `defaults` are the defaults that the help shows.
    """
    for name in names:
        option = OPTIONS[name]
        how: dict[str, Any] = {"choices": option.choices}
        if not option.choices:
            how = {"type": _TYPES.get(option.check, positive_int), "metavar": option.shown}
        help_text = option.help.format(getattr(defaults, name))
        parser.add_argument("--" + name.replace("_", "-"), help=help_text, **how)


def given_search(values: argparse.Namespace) -> SearchKeywords:
    """Return the fields of `SearchOptions` given on the command line, as keyword arguments."""
    found = {name: getattr(values, name, None) for name in OPTIONS}
    return cast(SearchKeywords, {k: value for k, value in found.items() if value is not None})


def search_of(given: SearchKeywords, run: PathLike) -> SearchKeywords:
    """Return the run's own fields of `SearchOptions`, overridden by the given fields.

    A path without a run has no defaults here and raises no error; opening the run does.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    directory = RunDirectory(run)
    defaults = directory.search_defaults() if directory.is_run() else {}
    return cast(SearchKeywords, search_over(defaults, given))


def settled_search(given: SearchKeywords, run: PathLike, names: Collection[str]) -> SearchKeywords:
    """Return only the fields in `names` of `search_of`; a later `tune` does not change them."""
    found = search_of(given, run)
    return cast(SearchKeywords, {k: value for k, value in found.items() if k in names})


def tell_search_taken(
    paths: Sequence[PathLike], given: SearchKeywords, tried: Collection[str] = ()
) -> None:
    """Say which search an ensemble uses if its runs differ in options that no flag gives.

    The first run's search is used. A path without a run raises no error here; opening it does.

    Args:
        paths: the runs.
        given: fields of `SearchOptions` that flags give.
        tried: fields of `SearchOptions` for which several values are tried.
    """
    from keras_transformer.runs.run_directory import RunDirectory

    runs = [RunDirectory(path) for path in paths]
    if len(runs) == 1 or not all(run.is_run() for run in runs):
        return
    first, *others = (search_record(SearchOptions(**run.search_defaults())) for run in runs)
    taken = [
        f"{name.replace('_', ' ')} {value}"
        for name, value in first.items()
        if name not in {*given, *tried} and any(other[name] != value for other in others)
    ]
    if taken:
        note(f"The runs' own searches differ: taking {', '.join(taken)} of {runs[0].path}.")

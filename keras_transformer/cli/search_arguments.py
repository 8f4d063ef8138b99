"""The flags for `SearchOptions`, for every verb that searches."""

import argparse
import dataclasses
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

from keras_transformer.cli.program import (
    int_from_zero,
    number_from_zero,
    positive_int,
)
from keras_transformer.files.standard_streams import note
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

# The search options that an export contains.
EXPORTED_SEARCH = (
    "beam_size",
    "alpha",
    "length_penalty",
    "ending",
    "extra_length",
    "min_length",
    "no_repeat_ngram",
    "max_source_length",
)
_FIELDS = {field.name: field for field in dataclasses.fields(SearchOptions)}
_TYPES: dict[str, Callable[[str], Any]] = {
    "alpha": number_from_zero,
    "min_length": int_from_zero,
    "no_repeat_ngram": int_from_zero,
}
_CHOICES = {"length_penalty": LENGTH_PENALTIES, "ending": ENDINGS}


def add_search_arguments(
    parser: argparse.ArgumentParser, *names: str, defaults: SearchOptions = TRANSLATION
) -> None:
    """Add flags for these fields of `SearchOptions`; a flag that is not given is None.

    `defaults` are the defaults that the help shows.
    """
    for name in names:
        help_text = _FIELDS[name].metadata["help"].format(getattr(defaults, name))
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


def given_search(values: argparse.Namespace) -> SearchKeywords:
    """Return the fields of `SearchOptions` given on the command line, as keyword arguments."""
    found = {name: getattr(values, name, None) for name in _FIELDS}
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

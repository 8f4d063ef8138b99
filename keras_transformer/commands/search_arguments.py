"""The flags of `SearchOptions`: every verb that searches has them from here."""

import dataclasses

from keras_transformer.command_line.command_errors import (
    int_from_zero,
    number_from_zero,
    positive_int,
)
from keras_transformer.search_options import TRANSLATION, SearchOptions

_TYPES = {"alpha": number_from_zero, "min_length": int_from_zero, "no_repeat_ngram": int_from_zero}


def add_search_arguments(parser, *names, defaults=TRANSLATION):
    """Add the flags of these fields of `SearchOptions`; one that is not given is None.

    The help tells the defaults that hold then.
    """
    fields = {field.name: field for field in dataclasses.fields(SearchOptions)}
    for name in names:
        parser.add_argument(
            "--" + name.replace("_", "-"),
            type=_TYPES.get(name, positive_int),
            metavar="A" if name == "alpha" else "N",
            help=fields[name].metadata["help"].format(getattr(defaults, name)),
        )


def given_search(options):
    """The fields of `SearchOptions` that a parsed command line gives, as keyword arguments."""
    names = [field.name for field in dataclasses.fields(SearchOptions)]
    given = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}

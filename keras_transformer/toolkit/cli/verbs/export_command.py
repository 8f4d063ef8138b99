"""`keras-transformer export`: write a run as files that run elsewhere."""

import argparse
from typing import Any

from keras_transformer.formats.format import Flag, Format
from keras_transformer.formats.registry import FORMATS
from keras_transformer.installation import start_backend_quietly
from keras_transformer.search_options import EXPORT
from keras_transformer.toolkit.cli.named_models import (
    EXPORTED_SEARCH,
    NamedModels,
    add_run_arguments,
    add_search_arguments,
    given_search,
    tell_search_taken,
)

HELP = "write a run as a SavedModel, or for LiteRT, CTranslate2, Marian or Bergamot"
DESCRIPTION = "Write a trained model as files that run elsewhere, and print their path."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    for name, kind in FORMATS.items():
        of_kind = kinds.add_parser(name, help=kind.help, description=f"Write {kind.help}.")
        add_run_arguments(of_kind)
        of_kind.add_argument("directory", metavar="DIRECTORY", help=kind.directory)
        if kind.precisions:
            of_kind.add_argument(
                "--precision",
                choices=kind.precisions,
                default=kind.precisions[0],
                help="number format of the weights (default: %(default)s)",
            )
        if kind.flag:
            _add_flag(of_kind, kind.flag)
        if kind.has_search:
            of_kind.add_argument(
                "--shortlist",
                action="store_true",
                help="search among the tokens that the run's shortlist has for each sentence",
            )
        add_search_arguments(of_kind, *_search_of(kind), defaults=EXPORT)
        of_kind.set_defaults(kind=kind)


def _add_flag(parser: argparse.ArgumentParser, flag: Flag) -> None:
    if flag.metavar is None:
        parser.add_argument(flag.flag, dest=flag.option, action="store_true", help=flag.help)
    else:
        parser.add_argument(flag.flag, dest=flag.option, metavar=flag.metavar, help=flag.help)


def _search_of(kind: Format) -> tuple[str, ...]:
    """The search options that have flags."""
    n_best = ("num_results",) if kind.has_n_best else ()
    return (*EXPORTED_SEARCH, *n_best) if kind.has_search else ()


def export(values: argparse.Namespace) -> None:
    """Run the verb."""
    models, search, kind = NamedModels.of(values), given_search(values), values.kind
    if kind.has_search:
        tell_search_taken(models.runs, search)
    start_backend_quietly()
    from keras_transformer.data.parallel_text import read_text

    options: dict[str, Any] = {**search}
    if kind.precisions:
        options["precision"] = values.precision
    if kind.flag:
        given = getattr(values, kind.flag.option)
        options[kind.flag.option] = read_text(given) if isinstance(given, str) else given
    translator = models.load(shortlist=kind.has_search and values.shortlist)
    print(kind.write(translator, values.directory, **options))

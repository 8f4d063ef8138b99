"""`keras-transformer export`: write a run in a format for another runtime."""

import argparse
from typing import Any

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

HELP = "export a run for other runtimes, such as SavedModel, LiteRT and CTranslate2, or as a page"
DESCRIPTION = "Export a trained model for use elsewhere, and print the path of the export."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the verb's arguments to its parser."""
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    for name, kind in FORMATS.items():
        of_kind = kinds.add_parser(name, help=kind.help, description=f"Write {kind.help}.")
        add_run_arguments(of_kind)
        of_kind.add_argument("directory", metavar=kind.output, help=kind.directory)
        if kind.precisions:
            of_kind.add_argument(
                "--precision",
                choices=kind.precisions,
                default=kind.precisions[0],
                help="number format of the weights (default: %(default)s)",
            )
        for flag in kind.flags:
            how: dict[str, Any] = {"action": "store_false" if flag.turns_off else "store_true"}
            if flag.metavar:
                how = {"metavar": flag.metavar}
            of_kind.add_argument(flag.flag, dest=flag.option, help=flag.help, **how)
        if kind.has_search:
            of_kind.add_argument(
                "--shortlist",
                action="store_true",
                help="restrict the output for each sentence to the tokens in the run's shortlist",
            )
            add_search_arguments(of_kind, *EXPORTED_SEARCH, defaults=EXPORT)
            if kind.has_n_best:
                add_search_arguments(of_kind, "num_results", defaults=EXPORT)
        of_kind.set_defaults(kind=kind)


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
    for flag in kind.flags:
        given = getattr(values, flag.option)
        options[flag.option] = read_text(given) if isinstance(given, str) else given
    translator = models.load(shortlist=kind.has_search and values.shortlist)
    print(kind.write(translator, values.directory, **options))

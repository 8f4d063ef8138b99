"""`keras-transformer export`: a run as files that run elsewhere."""

import argparse
from collections.abc import Sequence

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_line.program import CommandParser, Verbs
from keras_transformer.commands.arguments.model_arguments import add_run_arguments
from keras_transformer.commands.arguments.search_arguments import (
    EXPORTED_SEARCH,
    add_search_arguments,
    given_search,
    tell_search_taken,
)
from keras_transformer.commands.named_models import NamedModels
from keras_transformer.search_options import EXPORT
from keras_transformer.serving.export_contract import (
    CTRANSLATE2_PRECISIONS,
    LITERT_PRECISIONS,
    SAVED_MODEL_PRECISIONS,
)


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "export",
        help="write a run as a SavedModel, for LiteRT, CTranslate2 or Transformers",
        description="Write a trained model as files that run elsewhere, and print their path.",
    )
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    _add_saved_model(kinds)
    _add_litert(kinds)
    _add_ctranslate2(kinds)
    _add_marian(kinds)


def _add_saved_model(kinds: Verbs) -> None:
    parser = _add_kind(
        kinds,
        "saved-model",
        "export_saved_model",
        help="a SavedModel for tensorflow_model_server: strings in, strings out",
        directory="directory of the model, such as saved_models/en_de; the export is its next "
        "version, such as saved_models/en_de/1",
        precisions=SAVED_MODEL_PRECISIONS,
    )
    add_search_arguments(parser, *EXPORTED_SEARCH, "num_results", defaults=EXPORT)


def _add_litert(kinds: Verbs) -> None:
    parser = _add_kind(
        kinds,
        "litert",
        "export_litert",
        help="a LiteRT (TensorFlow Lite) model for phones: ids in, ids out",
        directory="directory to write; it must not exist, or be empty",
        precisions=LITERT_PRECISIONS,
    )
    add_search_arguments(parser, *EXPORTED_SEARCH, defaults=EXPORT)


def _add_ctranslate2(kinds: Verbs) -> None:
    _add_kind(
        kinds,
        "ctranslate2",
        "export_ctranslate2",
        help="a model directory of the CTranslate2 engine, whose own search it runs with",
        directory="directory to write; it must not exist, or be empty",
        precisions=CTRANSLATE2_PRECISIONS,
    )


def _add_marian(kinds: Verbs) -> None:
    _add_kind(
        kinds,
        "marian",
        "export_marian",
        help="a folder for MarianMTModel and MarianTokenizer of Hugging Face Transformers",
        directory="directory to write; it must not exist, or be empty",
        precisions=(),
    )


def _add_kind(
    kinds: Verbs,
    name: str,
    exporter: str,
    *,
    help: str,
    directory: str,
    precisions: Sequence[str],
) -> CommandParser:
    parser = kinds.add_parser(name, help=help, description=f"Write {help}.")
    add_run_arguments(parser)
    parser.add_argument("directory", metavar="DIRECTORY", help=directory)
    if precisions:
        parser.add_argument(
            "--precision",
            choices=precisions,
            default=precisions[0],
            help="number format of the weights (default: %(default)s)",
        )
    parser.set_defaults(verb=export, exporter=exporter)
    return parser


def export(values: argparse.Namespace) -> None:
    """Run the verb."""
    models, search = NamedModels.of(values), given_search(values)
    if hasattr(values, EXPORTED_SEARCH[0]):
        tell_search_taken(models.runs, search)
    start_backend_quietly()
    from keras_transformer import export as exporters

    write = getattr(exporters, values.exporter)
    precision = {"precision": values.precision} if hasattr(values, "precision") else {}
    print(write(models.load(), values.directory, **search, **precision))

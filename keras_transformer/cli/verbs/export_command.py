"""`keras-transformer export`: write a run as files that run elsewhere."""

import argparse
from collections.abc import Sequence
from typing import Any, NamedTuple

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.cli.named_models import NamedModels, add_run_arguments
from keras_transformer.cli.program import Verbs
from keras_transformer.cli.search_arguments import (
    EXPORTED_SEARCH,
    add_search_arguments,
    given_search,
    tell_search_taken,
)
from keras_transformer.formats.export_contract import (
    BERGAMOT_PRECISIONS,
    CTRANSLATE2_PRECISIONS,
    LITERT_PRECISIONS,
    SAVED_MODEL_PRECISIONS,
)
from keras_transformer.search_options import EXPORT


class Kind(NamedTuple):
    """A kind of export: its help texts and its flags."""

    exporter: str  # name in `keras_transformer.export`
    help: str
    precisions: Sequence[str] = ()
    search: Sequence[str] = ()
    directory: str = "directory to write; it must not exist, or be empty"
    compiles: bool = False  # whether XLA may compile it
    has_native: bool = False  # whether it has a second form
    calibrates: bool = False  # whether int8 needs sentences


KINDS = {
    "saved-model": Kind(
        "export_saved_model",
        "a SavedModel for tensorflow_model_server: strings in, strings out",
        SAVED_MODEL_PRECISIONS,
        (*EXPORTED_SEARCH, "num_results"),
        "directory of the model, such as saved_models/en_de; the export is its next version, such "
        "as saved_models/en_de/1",
        compiles=True,
    ),
    "litert": Kind(
        "export_litert",
        "a LiteRT (TensorFlow Lite) model for phones: ids in, ids out",
        LITERT_PRECISIONS,
        EXPORTED_SEARCH,
    ),
    "ctranslate2": Kind(
        "export_ctranslate2",
        "a model directory for the CTranslate2 engine, which runs it with its own search",
        CTRANSLATE2_PRECISIONS,
    ),
    "marian": Kind(
        "export_marian",
        "a folder for MarianMTModel and MarianTokenizer of Hugging Face Transformers",
        has_native=True,
    ),
    "bergamot": Kind(
        "export_bergamot",
        "a folder for Bergamot, the engine of Firefox Translations",
        BERGAMOT_PRECISIONS,
        directory="directory to write, named after the languages, such as firefox/enpt; it must "
        "not exist, or be empty",
        calibrates=True,
    ),
}


def add_parser(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "export",
        help="write a run as a SavedModel, or for LiteRT, CTranslate2, Marian or Bergamot",
        description="Write a trained model as files that run elsewhere, and print their path.",
    )
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    for name, kind in KINDS.items():
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
        if kind.compiles:
            of_kind.add_argument(
                "--xla",
                action="store_true",
                help="let XLA compile the search where the export runs, for servers with a GPU; "
                "the first request of each shape waits seconds for the compilation",
            )
        if kind.has_native:
            of_kind.add_argument(
                "--native",
                action="store_true",
                help="write model.npz, vocab.spm and decoder.yml for Marian itself instead",
            )
        if kind.calibrates:
            of_kind.add_argument(
                "--calibration",
                metavar="FILE",
                help="some hundred sentences of the source, like those to be translated, one a "
                "line; int8 needs them",
            )
        if kind.search:
            of_kind.add_argument(
                "--shortlist",
                action="store_true",
                help="search among the tokens that the run's shortlist has for each sentence",
            )
        add_search_arguments(of_kind, *kind.search, defaults=EXPORT)
        of_kind.set_defaults(verb=export, kind=kind)


def export(values: argparse.Namespace) -> None:
    """Run the verb."""
    models, search = NamedModels.of(values), given_search(values)
    if values.kind.search:
        tell_search_taken(models.runs, search)
    start_backend_quietly()
    from keras_transformer import export as exporters
    from keras_transformer.data.text_files import read_text

    write = getattr(exporters, values.kind.exporter)
    options: dict[str, Any] = {}
    if values.kind.precisions:
        options["precision"] = values.precision
    if values.kind.compiles:
        options["jit_compile"] = values.xla
    if values.kind.has_native:
        options["native"] = values.native
    if values.kind.calibrates and values.calibration is not None:
        options["calibration"] = read_text(values.calibration)
    translator = models.load(shortlist=bool(values.kind.search) and values.shortlist)
    print(write(translator, values.directory, **search, **options))

"""`keras-transformer export`: a run as files that run elsewhere."""

from keras_transformer.backend_start import start_backend_quietly
from keras_transformer.command_line.command_errors import (
    int_from_zero,
    number_from_zero,
    positive_int,
)
from keras_transformer.commands.model_arguments import add_run_arguments, load_translator

# Flags of the search, which is part of the export: name, type, letter, help. The defaults are those
# of `export.search_options.SearchOptions`.
SEARCH = (
    ("beam_size", positive_int, "N", "default: 4; 1 is greedy search"),
    ("alpha", number_from_zero, "A", "exponent of the length penalty (default: 0.6)"),
    (
        "extra_length",
        positive_int,
        "N",
        "most output tokens beyond the source's own number (default: 50)",
    ),
    ("min_length", int_from_zero, "N", "least number of output tokens (default: 0)"),
    (
        "no_repeat_ngram",
        int_from_zero,
        "N",
        "never produce the same N tokens in a row twice in one translation; at most 100 (default: "
        "0, off)",
    ),
    (
        "max_source_length",
        positive_int,
        "N",
        "most source tokens, end of sentence counted; longer input is cut (default: 256)",
    ),
)

# Of the parsed command line, what the exporters take by these names.
EXPORT_OPTIONS = ("precision", "num_results", *(name for name, *_ in SEARCH))


def add_parser(verbs):
    """Add the verb to the `argparse` subparsers `verbs`."""
    parser = verbs.add_parser(
        "export",
        help="write a run as a SavedModel, for LiteRT or for CTranslate2",
        description="Write a trained model as files that run elsewhere, and print their path.",
    )
    kinds = parser.add_subparsers(title="kinds", required=True, metavar="KIND")
    _add_saved_model(kinds)
    _add_litert(kinds)
    _add_ctranslate2(kinds)


def _add_saved_model(kinds):
    parser = _add_kind(
        kinds,
        "saved-model",
        "export_saved_model",
        help="a SavedModel for tensorflow_model_server: strings in, strings out",
        directory="directory of the model, such as saved_models/en_de; the export is its next "
        "version, such as saved_models/en_de/1",
        precisions=("float32", "bfloat16"),
    )
    _add_search(parser)
    parser.add_argument(
        "--num-results",
        type=positive_int,
        metavar="N",
        help="translations of each sentence in the n-best signature (default: the beam size)",
    )


def _add_litert(kinds):
    parser = _add_kind(
        kinds,
        "litert",
        "export_litert",
        help="a LiteRT (TensorFlow Lite) model for phones: ids in, ids out",
        directory="directory to write; it must not exist, or be empty",
        precisions=("float32", "float16", "int8"),
    )
    _add_search(parser)


def _add_ctranslate2(kinds):
    _add_kind(
        kinds,
        "ctranslate2",
        "export_ctranslate2",
        help="a model directory of the CTranslate2 engine, whose own search it runs with",
        directory="directory to write; it must not exist, or be empty",
        precisions=("float32", "float16", "int16", "int8"),
    )


def _add_kind(kinds, name, exporter, *, help, directory, precisions):
    parser = kinds.add_parser(name, help=help, description=f"Write {help}.")
    add_run_arguments(parser)
    parser.add_argument("directory", metavar="DIRECTORY", help=directory)
    parser.add_argument(
        "--precision",
        choices=precisions,
        default=precisions[0],
        help="number format of the weights (default: %(default)s)",
    )
    parser.set_defaults(verb=export, exporter=exporter)
    return parser


def _add_search(parser):
    for name, type_, letter, text in SEARCH:
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=type_, metavar=letter, help=text)


def export(options):
    """Run the verb with the parsed command line."""
    start_backend_quietly()
    from keras_transformer import export as exporters

    values = {name: value for name, value in vars(options).items() if name in EXPORT_OPTIONS}
    translator = load_translator(options)
    print(getattr(exporters, options.exporter)(translator, options.directory, **values))

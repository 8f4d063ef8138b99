"""TensorFlow SavedModels."""

from typing import Literal, get_args

from keras_transformer.formats.format import WITH_TERMS, Flag, Format

Precision = Literal["float32", "bfloat16"]
SAVED_MODEL = Format(
    name="saved-model",
    kind="SavedModel",
    help="a SavedModel for tensorflow_model_server, with strings as input and output",
    writer="saved_model.writer:export_saved_model",
    precisions=get_args(Precision),
    files=("saved_model.pb", "variables/*"),
    directory="model directory, such as exports/en_de; the export becomes its next version, "
    "such as exports/en_de/1",
    has_search=True,
    has_n_best=True,
    flags=(
        Flag(
            "--xla",
            "jit_compile",
            "compile the search with XLA on the serving machine, for servers with a GPU; the first "
            "request of each shape then takes seconds longer",
        ),
        WITH_TERMS,
    ),
    runtime="saved_model.reader:start_runtime",
    reader="saved_model.reader:open_export",
    version="1",
    lacks=("glossary_tags", "sample", "n_best", "tab_prefix", "target_language"),
)
FORMATS = (SAVED_MODEL,)

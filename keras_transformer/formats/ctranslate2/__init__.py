"""CTranslate2 models."""

from typing import Literal, get_args

from keras_transformer.formats.format import Format, Import

Precision = Literal["float32", "float16", "int16", "int8"]
CTRANSLATE2 = Format(
    name="ctranslate2",
    kind="CTranslate2 model",
    help="a model directory for the CTranslate2 engine, which uses its own search",
    writer="ctranslate2.writer:export_ctranslate2",
    precisions=get_args(Precision),
    files=("model.bin", "tokenizer.model"),
    runtime="ctranslate2.reader:runtime_class",
    reader="ctranslate2.reader:open_export",
    lacks=(
        "glossary",
        "keep",
        "markup",
        "shortlist",
        "sample",
        "length_penalty",
        "ending",
        "max_repeats",
    ),
    own_search={"length_penalty": "power"},
    importer=Import(
        "ctranslate2.importer:import_ctranslate2_run",
        help="a CTranslate2 folder, or an Argos Translate package",
        description="Import a translation model from CTranslate2 or Argos Translate as a run. No "
        "code in its files is executed.",
        directory="a folder with model.bin and its vocabularies, or an .argosmodel file",
    ),
)
FORMATS = (CTRANSLATE2,)

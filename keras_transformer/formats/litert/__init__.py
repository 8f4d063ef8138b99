"""LiteRT models."""

from typing import Literal, get_args

from keras_transformer.formats.format import WITH_TERMS, Flag, Format

Precision = Literal["float32", "float16", "int8"]
_WITHOUT_ALIGNMENTS = Flag(
    "--no-alignments",
    "alignments",
    "translate without aligning the words, although the model has an alignment head; a small model "
    "is then nearly twice as fast",
    turns_off=True,
)
LITERT = Format(
    name="litert",
    kind="LiteRT model",
    help="a LiteRT (TensorFlow Lite) model for phones, with ids as input and output",
    writer="litert.writer:export_litert",
    precisions=get_args(Precision),
    files=("model.tflite", "tokenizer.model", "translation.json", "vocabulary.json"),
    has_search=True,
    flags=(WITH_TERMS, _WITHOUT_ALIGNMENTS),
    runtime="litert.reader:interpreter_class",
    reader="litert.reader:open_export",
    lacks=("glossary_tags", "sample", "n_best", "tab_prefix"),
)
FORMATS = (LITERT,)

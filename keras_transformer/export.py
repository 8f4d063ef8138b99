"""Export trained translators to files for other runtimes: see docs/serving.md."""

from keras_transformer.formats.ctranslate2.writer import export_ctranslate2
from keras_transformer.formats.litert.writer import export_litert
from keras_transformer.formats.marian.bergamot_writer import export_bergamot
from keras_transformer.formats.marian.writer import export_marian
from keras_transformer.formats.page.writer import export_page
from keras_transformer.formats.saved_model.writer import export_saved_model

__all__ = [
    "export_bergamot",
    "export_ctranslate2",
    "export_litert",
    "export_marian",
    "export_page",
    "export_saved_model",
]

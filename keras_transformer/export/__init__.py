"""Trained translators as files that run elsewhere: see docs/serving.md."""

from keras_transformer.export.ctranslate2_export import export_ctranslate2
from keras_transformer.export.litert import export_litert
from keras_transformer.export.marian_export import export_marian
from keras_transformer.export.saved_model import export_saved_model

__all__ = ["export_ctranslate2", "export_litert", "export_marian", "export_saved_model"]

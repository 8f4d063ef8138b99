"""The Transformer of "Attention Is All You Need" as a Keras 3 package.

Every name below is imported on first use: the package itself loads neither Keras nor TensorFlow.
Once a program imports Keras, the classes are registered for `keras.models.load_model`.
"""

import importlib

from keras_transformer.distribution import __version__
from keras_transformer.saving import register_with_keras

_SUBPACKAGES = (
    "data",
    "decoding",
    "evaluation",
    "export",
    "layers",
    "losses",
    "metrics",
    "models",
    "optimizers",
    "parsing",
    "schedules",
    "serving",
    "text",
    "training",
    "translation_training",
)
_HOMES = {
    "Alignment": "inference.alignment",
    "BatchPlan": "data",
    "BatchReader": "data",
    "CausalStack": "models",
    "LabelSmoothingCrossEntropy": "losses",
    "LiteRTTranslator": "serving",
    "MultiHeadAttention": "layers",
    "PRESETS": "models",
    "Parse": "inference.parser",
    "Parser": "inference.parser",
    "Perplexity": "metrics",
    "PositionalEmbedding": "layers",
    "RunDirectory": "runs.run_directory",
    "SearchOptions": "search_options",
    "SentencePieceTokenizer": "text",
    "SequenceGenerator": "models.sequence_generator",
    "SpecialTokens": "special_tokens",
    "TokenAccuracy": "metrics",
    "TokenEmbedding": "layers",
    "TransformerDecoderLayer": "layers",
    "TransformerEncoderLayer": "layers",
    "TransformerSchedule": "schedules",
    "TranslationClient": "serving",
    "TranslationData": "translation_training",
    "TranslationSettings": "translation_training",
    "Translator": "inference.translator",
    "UserInputError": "errors",
    "build_language_model": "models",
    "build_transformer": "models",
    "train_translation": "translation_training",
    "transformer_adam": "optimizers",
}

__all__ = ["__version__", *sorted(_SUBPACKAGES), *sorted(_HOMES)]


def __getattr__(name):
    if name in _SUBPACKAGES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})


register_with_keras()

"""Clients and runtimes of exported models, independent of Keras.

Each name is loaded on first use, so each runtime needs only its own libraries.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer.formats.ctranslate2.reader import CTranslate2Translator
    from keras_transformer.formats.litert.reader import LiteRTTranslator
    from keras_transformer.formats.saved_model.reader import SavedModelTranslator
    from keras_transformer.serving.serving_errors import ServingError
    from keras_transformer.serving.translation_client import TranslationClient

_HOMES = {
    "CTranslate2Translator": "keras_transformer.formats.ctranslate2.reader",
    "LiteRTTranslator": "keras_transformer.formats.litert.reader",
    "SavedModelTranslator": "keras_transformer.formats.saved_model.reader",
    "ServingError": "keras_transformer.serving.serving_errors",
    "TranslationClient": "keras_transformer.serving.translation_client",
}

__all__ = [
    "CTranslate2Translator",
    "LiteRTTranslator",
    "SavedModelTranslator",
    "ServingError",
    "TranslationClient",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

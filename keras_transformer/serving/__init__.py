"""Clients and runtimes of exported models, independent of Keras.

Each name is loaded on first use, so that each runtime needs only its own libraries.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from keras_transformer.serving.ctranslate2_translator import CTranslate2Translator
    from keras_transformer.serving.litert_translator import LiteRTTranslator
    from keras_transformer.serving.saved_model_translator import SavedModelTranslator
    from keras_transformer.serving.serving_errors import ServingError
    from keras_transformer.serving.translation_client import TranslationClient

_HOMES = {
    "CTranslate2Translator": "ctranslate2_translator",
    "LiteRTTranslator": "litert_translator",
    "SavedModelTranslator": "saved_model_translator",
    "ServingError": "serving_errors",
    "TranslationClient": "translation_client",
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
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

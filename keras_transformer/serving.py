"""Clients and runtimes for exported models, independent of Keras.

Each name is imported on first use, so each runtime needs only its own libraries.
"""

from pathlib import Path

from keras_transformer.installation import on_first_use

# For `python -m keras_transformer.serving.saved_model_cli`.
__path__ = [str(Path(__file__).with_name("toolkit") / "serving")]

with on_first_use(globals()):
    from keras_transformer.formats.ctranslate2.reader import (
        CTranslate2Translator as CTranslate2Translator,
    )
    from keras_transformer.formats.litert.reader import LiteRTTranslator as LiteRTTranslator
    from keras_transformer.formats.saved_model.reader import (
        SavedModelTranslator as SavedModelTranslator,
    )
    from keras_transformer.toolkit.serving.connection import ServingError as ServingError
    from keras_transformer.toolkit.serving.translation_client import (
        TranslationClient as TranslationClient,
    )

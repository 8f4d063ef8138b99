"""The Transformer from "Attention Is All You Need" as a Keras 3 package.

The names below are imported on first use; importing the package does not load Keras or TensorFlow.
When a program imports Keras, the classes are registered for `keras.models.load_model`.
"""

from keras_transformer.installation import __version__ as __version__
from keras_transformer.installation import on_first_use, register_with_keras

__all__ = ["__version__"]

with on_first_use(globals()):
    from keras_transformer import data as data
    from keras_transformer import decoding as decoding
    from keras_transformer import evaluation as evaluation
    from keras_transformer import export as export
    from keras_transformer import layers as layers
    from keras_transformer import losses as losses
    from keras_transformer import metrics as metrics
    from keras_transformer import models as models
    from keras_transformer import optimizers as optimizers
    from keras_transformer import parsing as parsing
    from keras_transformer import schedules as schedules
    from keras_transformer import serving as serving
    from keras_transformer import text as text
    from keras_transformer import training as training
    from keras_transformer import translation_training as translation_training
    from keras_transformer.data import BatchPlan as BatchPlan
    from keras_transformer.data import BatchReader as BatchReader
    from keras_transformer.decoding.sequence_generator import SequenceGenerator as SequenceGenerator
    from keras_transformer.errors import UserInputError as UserInputError
    from keras_transformer.formats.ctranslate2.reader import (
        CTranslate2Translator as CTranslate2Translator,
    )
    from keras_transformer.formats.litert.reader import LiteRTTranslator as LiteRTTranslator
    from keras_transformer.formats.saved_model.reader import (
        SavedModelTranslator as SavedModelTranslator,
    )
    from keras_transformer.inference.parser import Parse as Parse
    from keras_transformer.inference.parser import Parser as Parser
    from keras_transformer.inference.translator import Translator as Translator
    from keras_transformer.layers import MultiHeadAttention as MultiHeadAttention
    from keras_transformer.layers import PositionalEmbedding as PositionalEmbedding
    from keras_transformer.layers import TokenEmbedding as TokenEmbedding
    from keras_transformer.layers import TransformerDecoderLayer as TransformerDecoderLayer
    from keras_transformer.layers import TransformerEncoderLayer as TransformerEncoderLayer
    from keras_transformer.losses import LabelSmoothingCrossEntropy as LabelSmoothingCrossEntropy
    from keras_transformer.metrics import Perplexity as Perplexity
    from keras_transformer.metrics import TokenAccuracy as TokenAccuracy
    from keras_transformer.models import PRESETS as PRESETS
    from keras_transformer.models import Transformer as Transformer
    from keras_transformer.models import build_language_model as build_language_model
    from keras_transformer.models import build_transformer as build_transformer
    from keras_transformer.optimizers import transformer_adam as transformer_adam
    from keras_transformer.runs.run_directory import RunDirectory as RunDirectory
    from keras_transformer.runs.shipped_models import ShippedModel as ShippedModel
    from keras_transformer.runs.shipped_models import presets as presets
    from keras_transformer.schedules import TransformerSchedule as TransformerSchedule
    from keras_transformer.search_options import SearchOptions as SearchOptions
    from keras_transformer.text import SentencePieceTokenizer as SentencePieceTokenizer
    from keras_transformer.text.alignment import Alignment as Alignment
    from keras_transformer.toolkit.serving.translation_client import (
        TranslationClient as TranslationClient,
    )
    from keras_transformer.training.translation.data import TranslationData as TranslationData
    from keras_transformer.training.translation.settings import (
        TranslationSettings as TranslationSettings,
    )
    from keras_transformer.training.translation.training import (
        train_translation as train_translation,
    )
    from keras_transformer.types import SpecialTokens as SpecialTokens

register_with_keras()

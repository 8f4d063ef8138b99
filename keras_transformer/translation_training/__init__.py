"""A whole training of a translation model, from sentence pairs to a scored run directory."""

from keras_transformer.translation_training.settings import TranslationSettings
from keras_transformer.translation_training.training import train_translation
from keras_transformer.translation_training.translation_data import TranslationData

__all__ = ["TranslationData", "TranslationSettings", "train_translation"]

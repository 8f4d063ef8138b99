"""The demo: a small Transformer that translates English number words into German."""

from keras_transformer.demo.settings import NumberWordsSettings
from keras_transformer.demo.train import train_number_words
from keras_transformer.training_flags import add_export_argument

__all__ = ["NumberWordsSettings", "add_export_argument", "train_number_words"]

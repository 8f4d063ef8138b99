"""The demo: a small Transformer that translates English number words into German."""

from keras_transformer.settings import add_export_argument
from keras_transformer.toolkit.demo.number_pairs import NumberWordsSettings
from keras_transformer.toolkit.demo.train import train_number_words

__all__ = ["NumberWordsSettings", "add_export_argument", "train_number_words"]

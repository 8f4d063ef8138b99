"""The demo: a small Transformer that translates English number words into German."""

from keras_transformer.cli.training_flags import add_export_argument
from keras_transformer.demo.settings import NumberWordsSettings
from keras_transformer.demo.train import train_number_words

__all__ = ["NumberWordsSettings", "add_export_argument", "train_number_words"]

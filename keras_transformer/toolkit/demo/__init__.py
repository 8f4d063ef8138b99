"""A demo that trains a small Transformer to translate English number words into German.

Names are imported lazily so that flags can be parsed without Keras.
"""

from keras_transformer.installation import on_first_use

with on_first_use(globals()):
    from keras_transformer.settings import add_export_argument as add_export_argument
    from keras_transformer.toolkit.demo.number_pairs import (
        NumberWordsSettings as NumberWordsSettings,
    )
    from keras_transformer.toolkit.demo.train import train_number_words as train_number_words

"""The demo: a small Transformer that translates English number words into German.

Each name is loaded when it is first used, because flags are read without Keras.
"""

from keras_transformer.installation import on_first_use

with on_first_use(globals()):
    from keras_transformer.settings import add_export_argument as add_export_argument
    from keras_transformer.toolkit.demo.number_pairs import (
        NumberWordsSettings as NumberWordsSettings,
    )
    from keras_transformer.toolkit.demo.train import train_number_words as train_number_words

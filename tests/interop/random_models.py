"""Models with random weights that are written for other programs."""

import keras
import numpy as np

from keras_transformer.models import build_transformer
from keras_transformer.text import SentencePieceTokenizer
from tests.interop.marian_folders import ENGLISH


def random_model(tokenizer, **options):
    """A model, none of whose weights is 0, and the tokenizer of its sources."""
    keras.utils.set_random_seed(3)
    model = build_transformer("tiny", bias_initializer="random_normal", dropout=0.0, **options)
    generator = np.random.default_rng(1)
    model.set_weights([w + generator.normal(0, 0.1, w.shape) for w in model.get_weights()])
    if "source_vocabulary_size" not in options:
        return model, tokenizer
    return model, SentencePieceTokenizer.train(ENGLISH, vocabulary_size=90)

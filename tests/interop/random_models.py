"""Models that are written for other programs and read again: random weights, comparisons."""

import keras
import numpy as np

from keras_transformer import Translator
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


def translator_from(imported, **search):
    """The translator of an `ImportedModel` with its own search."""
    return Translator(
        imported.model,
        imported.tokenizer,
        source_tokenizer=imported.source_tokenizer,
        **imported.search | search,
    )


def assert_same_weights(found, expected):
    for one, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_array_equal(np.asarray(one), np.asarray(other), one.path)


def some_logits(model, start):
    """Of two sentences, whose outputs begin with the id `start`."""
    sources, targets = (
        np.array(rows, "int32") for rows in ([[9, 8, 7, 2], [6, 5, 2, 0]], [[7, 6], [50, 51]])
    )
    inputs = {"source_ids": sources, "target_ids": np.insert(targets, 0, start, axis=1)}
    return np.asarray(model(inputs))[..., :96]

"""A tokenizer that the tests of exports share."""

import pytest

from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import sentences


@pytest.fixture(scope="session")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)

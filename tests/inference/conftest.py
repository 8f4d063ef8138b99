"""A model with random weights, and its tokenizer."""

import pytest

from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences


@pytest.fixture(scope="session")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(200), vocabulary_size=64)


@pytest.fixture(scope="package")
def model(tokenizer):
    return build(tokenizer)

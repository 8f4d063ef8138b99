"""Pages in a browser, and small maps whose weights are known by hand."""

import numpy as np
import pytest

from keras_transformer.interpretation import AttentionMaps
from tests.browser import browser, visit  # noqa: F401 - fixtures

SOURCE = ["▁the", "▁red", "▁house", "</s>"]
TARGET = ["▁das", "▁rote", "▁Haus"]


def one_hot(*columns, length):
    """Rows that have all their weight in one column: float32 (rows, length)."""
    return np.eye(length, dtype="float32")[list(columns)]


@pytest.fixture
def maps():
    """Two layers of two heads.

    In layer 1, which the page shows first, head 1 of the cross-attention looks at the token at the
    same place, and head 2 at the place before (20 %) and at the end (80 %). All else is uniform,
    over what the decoder has read.
    """
    encoder = np.full((2, 2, 4, 4), 1 / 4, "float32")
    decoder = np.tril(np.ones((2, 2, 4, 4), "float32"))
    decoder /= decoder.sum(axis=-1, keepdims=True)
    cross = np.full((2, 2, 4, 4), 1 / 4, "float32")
    cross[0, 0] = one_hot(0, 1, 2, 3, length=4)
    cross[0, 1] = 0.2 * one_hot(0, 0, 1, 2, length=4) + 0.8 * one_hot(3, 3, 3, 3, length=4)
    return AttentionMaps(SOURCE, ["<s>", *TARGET], [*TARGET, "</s>"], encoder, decoder, cross)

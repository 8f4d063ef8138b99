"""Ids as lists of lists, wherever a generator takes ids."""

import numpy as np
import pytest

from keras_transformer.models.sequence_generator import SequenceGenerator
from keras_transformer.search_options import SearchOptions
from tests.models.test_sequence_generator import SOURCE_IDS, build, to_numpy

PREFIX_IDS = np.array([[6, 5], [4, 0], [0, 0]])
TARGET_IDS = np.array([[1, 4, 5], [1, 7, 0], [1, 0, 0]])
LABELS = np.array([[4, 5, 2], [7, 2, 0], [2, 0, 0]])


@pytest.fixture(scope="module")
def generator():
    return SequenceGenerator(build(num_encoder_layers=1, num_decoder_layers=1))


@pytest.mark.parametrize(
    ("name", "inputs", "options"),
    [
        (
            "search",
            (SOURCE_IDS, PREFIX_IDS),
            {"options": SearchOptions(beam_size=1, extra_length=3)},
        ),
        ("score", (SOURCE_IDS, TARGET_IDS, LABELS), {}),
        ("alignment", (SOURCE_IDS, TARGET_IDS), {}),
    ],
)
def test_lists_of_ids_are_taken_as_arrays_are(generator, name, inputs, options):
    method = getattr(generator, name)
    expected = to_numpy(method(*inputs, **options))
    found = to_numpy(method(*(ids.tolist() for ids in inputs), **options))
    np.testing.assert_equal(found, expected)

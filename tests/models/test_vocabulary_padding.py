import pytest

from keras_transformer.models import padded_vocabulary_size


@pytest.mark.parametrize(
    ("size", "multiple", "padded"),
    [(1, 8, 8), (8, 8, 8), (9, 8, 16), (10_001, 8, 10_008), (37_000, 64, 37_056), (7, 1, 7)],
)
def test_least_multiple_that_holds_the_vocabulary(size, multiple, padded):
    assert padded_vocabulary_size(size, multiple) == padded


def test_multiple_of_eight_by_default():
    assert padded_vocabulary_size(32_003) == 32_008


@pytest.mark.parametrize("name", ["size", "multiple"])
@pytest.mark.parametrize("value", [0, -8, 8.0, "8", True])
def test_what_is_no_positive_integer_is_refused(name, value):
    arguments = {"size": 5, "multiple": 8, name: value}
    with pytest.raises(ValueError, match=f"`{name}` must be a positive integer. Received"):
        padded_vocabulary_size(**arguments)

"""What a generator takes: ids as lists of lists, and special tokens that it can generate with."""

import dataclasses

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_language_model
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.decoding.test_sequence_generator import SOURCE_IDS, build, to_numpy

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


@pytest.mark.parametrize("model", [None, "tiny", [None]])
def test_what_is_no_model_is_refused_in_a_line(model):
    with pytest.raises(ValueError, match=r"`model` must be a `Transformer`.* Received: .+$"):
        SequenceGenerator(model)


def language_model(**options):
    sizes = {"vocabulary_size": 12, "num_decoder_layers": 1, "hidden_dim": 8, "num_heads": 2}
    return build_language_model("tiny", **sizes, **options)


def test_a_language_model_does_not_begin_with_what_it_masks():
    tokens = SpecialTokens(bos=0)
    message = r"`special_tokens.bos` must not be the `mask_id` .*Received: .*bos=0.*, mask_id=0"
    with pytest.raises(ValueError, match=message):
        SequenceGenerator(language_model(mask_id=0), tokens)
    assert SequenceGenerator(language_model(), tokens).special_tokens == tokens


@pytest.mark.parametrize("name", ["pad", "bos", "eos", "unk"])
def test_special_tokens_are_of_the_vocabulary(name):
    model, tokens = language_model(), dataclasses.replace(SpecialTokens(), **{name: 11})
    assert SequenceGenerator(model, tokens).special_tokens == tokens
    message = rf"less than the number of tokens, 11. Received: .*{name}=11"
    with pytest.raises(ValueError, match=message):
        SequenceGenerator(model, tokens, vocabulary_size=np.int64(11))
    with pytest.raises(ValueError, match=rf"less than the number of tokens, 12. .*{name}=12"):
        SequenceGenerator(model, dataclasses.replace(tokens, **{name: 12}))

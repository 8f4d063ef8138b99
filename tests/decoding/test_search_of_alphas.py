"""`SequenceGenerator.search_alphas` against `search` with one alpha after the other."""

import dataclasses
import functools

import numpy as np
import pytest

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens
from tests.models.compiled_function import compiled

TOKENS = SpecialTokens()
SIZES = {"hidden_dim": 16, "intermediate_dim": 32, "num_heads": 2, "vocabulary_size": 12}
SOURCE_IDS = np.array([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0], [11, 2, 0, 0, 0]], "int32")
PROMPTS = np.array([[4, 5, 6], [7, 0, 0], [0, 0, 0]], "int32")
ALPHAS = (0.0, 4.0)


def with_opinions(build, **sizes):
    """A small model with an opinion on what comes next, the same on every backend."""
    model, generator = build("tiny", **SIZES, **sizes), np.random.default_rng(4)
    model.set_weights(
        [(w.ndim == 1) * w + generator.normal(0, 0.5, w.shape) for w in model.get_weights()]
    )
    return model


@pytest.fixture(scope="module")
def translator():
    return with_opinions(build_transformer, num_encoder_layers=1, num_decoder_layers=1)


@pytest.fixture(scope="module")
def language_model():
    return with_opinions(build_language_model, num_decoder_layers=1)


def assert_equal_to_each_search(model, ids, options, alphas=ALPHAS):
    """Return the ids (batch, alphas, length)."""
    generator = SequenceGenerator(model)
    sweep = functools.partial(generator.search_alphas, alphas=alphas, options=options)
    found, scores = compiled(sweep, ids)
    assert (found.dtype, scores.dtype) == (np.int32, np.float32)
    for i, alpha in enumerate(alphas):
        one = dataclasses.replace(options, alpha=alpha, num_results=1)
        expected, expected_scores = compiled(functools.partial(generator.search, options=one), ids)
        np.testing.assert_array_equal(found[:, i : i + 1], expected)
        np.testing.assert_allclose(scores[:, i : i + 1], expected_scores, rtol=1e-5)
    return found


@pytest.mark.slow
def test_a_translator(translator):
    options = SearchOptions(beam_size=3, extra_length=4, num_results=2, alpha=0.3)
    found = assert_equal_to_each_search(translator, SOURCE_IDS, options)
    assert len({tuple(row) for row in found[0]}) > 1


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["any", "transformers"])
def test_a_language_model_and_the_ending_of_transformers(language_model, ending):
    options = SearchOptions(beam_size=3, extra_length=5, ending=ending, length_penalty="power")
    found = assert_equal_to_each_search(language_model, PROMPTS, options)
    assert (found[0, :, :3] == PROMPTS[0]).all()


@pytest.mark.slow
def test_greedy_outputs_are_the_same_and_their_scores_are_not(translator):
    options = SearchOptions(beam_size=1, extra_length=3)
    found = assert_equal_to_each_search(translator, SOURCE_IDS, options, alphas=(0.0, 2.0))
    np.testing.assert_array_equal(found[:, 0], found[:, 1])


def test_refuses_bad_alphas(translator):
    generator = SequenceGenerator(translator)
    for alphas in ((), (0.6, -1.0)):
        with pytest.raises(ValueError, match="alpha"):
            generator.search_alphas(SOURCE_IDS, alphas)
    power = SearchOptions(length_penalty="power")
    with pytest.raises(ValueError, match="less than 9 with the length penalty power"):
        generator.search_alphas(SOURCE_IDS, [9.5], options=power)

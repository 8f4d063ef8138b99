"""Compiled searches for trees; tests/decoding/test_tree_constraint.py has the constraint itself."""

import dataclasses

import keras
import numpy as np
import pytest

from keras_transformer.decoding import TreeTokens
from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.inference.parser import CompiledTreeGenerator
from keras_transformer.models import build_transformer
from keras_transformer.search_options import PARSING, SearchOptions
from tests.decoding.small_trees import EOS, NP, PIECES, TOKENS, XX, S, tree_words

pytestmark = pytest.mark.tensorflow
TREE_TOKENS = TreeTokens.of(PIECES)
OPTIONS = dataclasses.replace(PARSING, beam_size=3, extra_length=5, num_results=1)
SOURCE_IDS = np.array([[4, 5, 6, 7, 2], [8, 9, 2, 0, 0], [0, 0, 0, 0, 0]], "int32")
NUM_LEAVES = [2, 2]


def build(seed=0, **overrides):
    keras.utils.set_random_seed(seed)
    sizes = {"num_encoder_layers": 1, "num_decoder_layers": 1, "vocabulary_size": 12}
    return build_transformer("tiny", **{**sizes, **overrides})


@pytest.mark.parametrize("beam_size", [1, 4])
def test_every_row_is_a_tree_over_its_words(beam_size):
    options = dataclasses.replace(OPTIONS, beam_size=beam_size, num_results=None)
    generator = CompiledTreeGenerator([build(), build(1)], TOKENS, TREE_TOKENS, options)
    ids, scores = generator.search(SOURCE_IDS, NUM_LEAVES)
    assert (ids.shape, scores.shape) == ((3, beam_size, 10), (3, beam_size))
    assert np.isfinite(scores[:2]).all()
    for row in (*ids[0], *ids[1]):
        assert tree_words(row) == 2
    assert ids[2, 0].tolist() == [EOS] + [0] * 9
    more, _ = generator.search(SOURCE_IDS, [4, 1, 0])
    assert [tree_words(row) for row in more[:2, 0]] == [4, 1]


@pytest.mark.slow
@pytest.mark.parametrize("beam_size", [1, 4])
def test_with_xla_it_finds_the_same_trees(beam_size):
    options = dataclasses.replace(OPTIONS, beam_size=beam_size)
    compiled, plain = (
        CompiledTreeGenerator([build()], TOKENS, TREE_TOKENS, options, jit_compile).search(
            SOURCE_IDS, NUM_LEAVES
        )
        for jit_compile in (True, False)
    )
    assert compiled[0].tolist() == plain[0].tolist()
    np.testing.assert_allclose(compiled[1], plain[1], atol=1e-5)


def test_without_numbers_it_is_the_plain_search():
    model = build()
    ids, scores = CompiledTreeGenerator([model], TOKENS, TREE_TOKENS, OPTIONS).search(SOURCE_IDS)
    plain = SequenceGenerator(model, TOKENS, len(PIECES)).search(SOURCE_IDS, options=OPTIONS)
    plain_ids, plain_scores = map(keras.ops.convert_to_numpy, plain)
    assert ids.tolist() == plain_ids.tolist()
    np.testing.assert_allclose(scores, plain_scores, atol=1e-5)


def test_too_few_positions_for_a_tree_give_the_beginning_of_a_flat_one():
    model = build(positions="learned", max_length=5)
    options = dataclasses.replace(OPTIONS, extra_length=300)
    generator = CompiledTreeGenerator([model], TOKENS, TREE_TOKENS, options)
    ids, scores = generator.search(SOURCE_IDS, [4, 2])
    assert np.isfinite(scores[:2]).all()
    assert ids[0, 0, 0] in (S, NP)
    assert ids[0, 0, 1:5].tolist() == [XX, XX, XX, EOS]
    assert tree_words(ids[1, 0]) == 2


def test_a_change_of_the_weights_is_seen():
    model = build()
    generator = CompiledTreeGenerator([model], TOKENS, TREE_TOKENS, OPTIONS)
    _, before = generator.search(SOURCE_IDS, NUM_LEAVES)
    model.set_weights([weight + 0.5 for weight in model.get_weights()])
    _, after = generator.search(SOURCE_IDS, NUM_LEAVES)
    assert np.abs(after - before)[:2].min() > 1e-4


def test_refuses_limits_that_fit_no_tree():
    with pytest.raises(ValueError, match="`extra_length` must be an integer >= 2. Received: ext"):
        CompiledTreeGenerator([build()], TOKENS, TREE_TOKENS, SearchOptions(extra_length=1))

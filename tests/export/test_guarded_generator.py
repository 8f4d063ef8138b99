"""The id-level graph behind every export: equal to the translator, and unbreakable."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.guarded_generator import (
    GuardedGenerator,
    exported_graph,
    exported_search,
)
from keras_transformer.inference.translator import Translator
from keras_transformer.models import with_alignment_head
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build

OPTIONS = {"beam_size": 3, "alpha": 0.6, "extra_length": 4}


@pytest.fixture(scope="module")
def translator(tokenizer):
    return Translator(build(tokenizer), tokenizer, **OPTIONS)


def generator_of(translator, **options):
    search = exported_search(translator, **options)
    return GuardedGenerator(translator, translator.models, search)


def search(generator, row, num_results=1):
    ids, lengths = np.array([row], "int32"), np.array([len(row)], "int32")
    return [ops.convert_to_numpy(x) for x in generator.search(ids, lengths, num_results)]


def test_a_place_that_no_hypothesis_took_has_no_score_and_no_tokens():
    """Of three pieces, at most two of them long, there are 1 + 3 + 9 outputs."""
    tokenizer = SentencePieceTokenizer.train(["a a"], vocabulary_size=6)
    translator = Translator(build(tokenizer), tokenizer, beam_size=20, extra_length=1)
    ids, lengths, scores = search(generator_of(translator), [5], 20)
    assert (scores[0, :13] > NO_SCORE).all()
    assert len({tuple(row) for row in ids[0, :13]}) == 13
    assert scores[0, 13:].tolist() == [NO_SCORE] * 7
    assert not lengths[0, 13:].any()
    assert not ids[0, 13:].any()


@pytest.mark.parametrize(
    ("row", "length", "expected"),
    [
        ([7, 8, 9], 3, [7, 8, 9, 2]),
        ([7, 8, 9], 2, [7, 8, 2, 0]),  # what is beyond the length does not matter
        ([7, 8, 2], 3, [7, 8, 2, 0]),  # an EOS at the end is not doubled
        ([7, 2, 9], 3, [7, 3, 9, 2]),  # one within is no token of a sentence
        ([0, 1, -5], 3, [3, 3, 3, 2]),
        ([60, 2**31 - 1, 59], 3, [3, 3, 59, 2]),
        ([7, 8, 9], 99, [7, 8, 9, 2]),
        ([7, 8, 9], -1, [0, 0, 0, 0]),
        ([7, 8, 9], 0, [0, 0, 0, 0]),
        ([2, 8, 9], 1, [0, 0, 0, 0]),
    ],
)
def test_the_source_is_tokens_eos_and_padding(translator, row, length, expected):
    source = generator_of(translator).source(np.array([row], "int32"), np.array([length], "int32"))
    assert ops.convert_to_numpy(source).tolist() == [expected]


def test_learned_positions_limit_source_and_output(tokenizer):
    translator = Translator(
        build(tokenizer, positions="learned", max_length=6), tokenizer, **OPTIONS
    )
    generator = generator_of(translator)
    assert generator.options.max_source_length == 6
    _, lengths, _ = search(generator, [7, 8, 9, 10, 11, 7, 8, 9, 10])
    assert lengths[0, 0] <= 5


@pytest.mark.parametrize(
    ("model", "options", "most"),
    [
        ({}, {"max_source_length": 4}, 3 + OPTIONS["extra_length"]),
        ({"positions": "learned", "max_length": 6}, {}, 5),
    ],
)
def test_a_translation_longer_than_any_output_has_no_score(tokenizer, model, options, most):
    """Its beginning would have a better one."""
    translator = Translator(build(tokenizer, **model), tokenizer, **OPTIONS)
    generator = generator_of(translator, **options)
    source = np.array([[7, 8]] * 3, "int32"), np.array([2] * 3, "int32")
    targets = np.arange(7, 8 + most, dtype="int32")[None].repeat(3, axis=0)
    targets[2, -1] = 2  # an EOS at the end is no token
    lengths = np.array([most, most + 1, most + 1], "int32")
    scores = ops.convert_to_numpy(generator.score(*source, targets, lengths))
    assert scores[0] > NO_SCORE
    assert scores[1] == NO_SCORE
    assert scores[2] == pytest.approx(scores[0], abs=1e-4)


def aligned(translator, generator, tolerance=1e-5):
    """Compare the weights of some pairs with the translator's."""
    sources, targets = [[7, 8, 9], [], [6]], [[9, 3], [5, 6], []]
    arrays = [np.array(rows, "int32") for rows in ([[7, 8, 9], [7] * 3, [6] * 3], [[9, 3, 4]] * 3)]
    arrays[1][1] = [5, 6, 4]
    lengths = [np.array([*map(len, rows)], "int32") for rows in (sources, targets)]
    found = ops.convert_to_numpy(generator.alignment(arrays[0], lengths[0], arrays[1], lengths[1]))
    assert (found.dtype, found.shape) == ("float32", (3, 3, 4))
    expected = np.zeros((3, 3, 4))
    for i, weights in translator._generator.alignment(sources, targets):
        expected[i, : len(targets[i]), : len(sources[i]) + 1] = weights
    np.testing.assert_allclose(found, expected, atol=tolerance)


def test_alignments_are_the_translators(tokenizer):
    sizes = {"num_decoder_layers": 2}
    own = build(tokenizer, alignment_layer=2, **sizes)
    other = with_alignment_head(build(tokenizer, 1, **sizes), 1, 2)
    limited = build(tokenizer, positions="learned", max_length=6, alignment_layer=1, **sizes)
    for models in ([own], [other], [own, other], [limited]):
        translator = Translator(models, tokenizer, **OPTIONS)
        generator = generator_of(translator)
        assert generator.aligns
        aligned(translator, generator)
    # Five tokens and EOS are all that the model can read.
    long = np.full((1, 9), 7, "int32"), np.array([9], "int32")
    weights = ops.convert_to_numpy(generator.alignment(*long, *long))
    assert weights.shape == (1, 9, 6)
    np.testing.assert_allclose(weights.sum(axis=2), [[1] * 5 + [0] * 4], atol=1e-5)
    for models in ([build(tokenizer)], [own, build(tokenizer, **sizes)]):
        assert not generator_of(Translator(models, tokenizer, **OPTIONS)).aligns


def test_alignments_in_bfloat16_are_float32(tokenizer):
    translator = Translator(build(tokenizer, alignment_layer=1), tokenizer, **OPTIONS)
    models, generator = exported_graph(translator, exported_search(translator), "bfloat16")
    assert models[0].dtype_policy.name == "bfloat16"
    aligned(translator, generator, tolerance=0.05)


def test_options_are_the_translators_unless_given(translator):
    expected = SearchOptions(**OPTIONS, max_source_length=256, num_results=3)
    assert exported_search(translator) == expected
    assert exported_search(translator, beam_size=None, alpha=0.0).alpha == 0.0
    assert exported_search(translator, beam_size=1).num_results == 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"alpha": -1.0}, ValueError, "`alpha` must be"),
        ({"extra_length": 3_000_000_000}, UserInputError, "`extra_length` must be at most"),
        ({"num_results": 5}, UserInputError, "`num_results` must be at most `beam_size`"),
    ],
)
def test_wrong_options_are_refused(translator, options, error, message):
    with pytest.raises(error, match=message):
        exported_search(translator, **options)

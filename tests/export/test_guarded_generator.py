"""The id-level graph behind every export: equal to the translator, and unbreakable."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.errors import UserInputError
from keras_transformer.formats.format import NO_SCORE
from keras_transformer.formats.guarded_generator import GuardedGenerator, exported_search
from keras_transformer.inference.translator import Translator
from keras_transformer.search_options import SearchOptions
from keras_transformer.text import SentencePieceTokenizer
from tests.random_translation import build, sentences

OPTIONS = {"beam_size": 3, "alpha": 0.6, "extra_length": 4}


@pytest.fixture(scope="module")
def tokenizer():
    return SentencePieceTokenizer.train(sentences(50), vocabulary_size=60)


@pytest.fixture(scope="module")
def translator(tokenizer):
    return Translator(build(tokenizer), tokenizer, **OPTIONS)


def generator_of(translator, **options):
    return GuardedGenerator(
        translator.models,
        translator.source_tokenizer,
        translator.tokenizer,
        exported_search(translator, **options),
    )


def search(generator, rows, num_results=1, width=None):
    width = max(1, *map(len, rows)) if width is None else width
    ids = np.full((len(rows), width), 99, "int32")
    for i, row in enumerate(rows):
        ids[i, : len(row)] = row
    found = generator.search(ids, np.array([len(row) for row in rows], "int32"), num_results)
    return [ops.convert_to_numpy(x) for x in found]


def decoded(tokenizer, ids, lengths):
    rows = zip(ids, lengths, strict=True)
    return [tokenizer.decode([row[:length]])[0] for row, length in rows]


@pytest.mark.parametrize("beam_size", [1, 3])
def test_it_finds_what_the_translator_finds(tokenizer, beam_size):
    translator = Translator(build(tokenizer), tokenizer, **OPTIONS | {"beam_size": beam_size})
    texts = [*sentences(6, seed=2), ""]
    ids, lengths, scores = search(generator_of(translator), tokenizer.encode(texts), beam_size)
    for i, expected in enumerate(translator.translate_nbest(texts, beam_size)):
        places = range(len(expected))
        assert decoded(tokenizer, ids[i][places], lengths[i][places]) == [t for t, _ in expected]
        np.testing.assert_allclose(scores[i][places], [s for _, s in expected], atol=1e-5)


def test_an_empty_source_has_the_empty_translation(translator):
    ids, lengths, scores = search(generator_of(translator), [[], [7, 8]], 3)
    assert not ids[0].any()
    assert lengths[0].tolist() == [0, 0, 0]
    assert scores[0].tolist() == [0.0, NO_SCORE, NO_SCORE]
    assert lengths[1].all()


def test_a_place_that_no_hypothesis_took_has_no_score_and_no_tokens():
    """Of three pieces, at most two of them long, there are 1 + 3 + 9 outputs."""
    tokenizer = SentencePieceTokenizer.train(["a a"], vocabulary_size=6)
    translator = Translator(build(tokenizer), tokenizer, beam_size=20, extra_length=1)
    ids, lengths, scores = search(generator_of(translator), [[5]], 20)
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


def test_a_long_source_is_cut_and_still_ends(translator):
    generator = generator_of(translator, max_source_length=4)
    source = generator.source(np.array([[7, 8, 9, 10, 11]], "int32"), np.array([5], "int32"))
    assert ops.convert_to_numpy(source).tolist() == [[7, 8, 9, 2]]
    cut, whole = search(generator, [[7, 8, 9, 10, 11], [7, 8, 9]])[:2]
    np.testing.assert_array_equal(cut[0], cut[1])
    assert whole[0] == whole[1]


def test_batch_mates_and_padding_do_not_matter(translator, tokenizer):
    generator = generator_of(translator)
    rows = tokenizer.encode([*sentences(5, seed=3), ""])
    ids, lengths, scores = search(generator, rows, 3, width=40)
    for i, row in enumerate(rows):
        alone_ids, alone_lengths, alone_scores = search(generator, [row], 3)
        assert lengths[i].tolist() == alone_lengths[0].tolist()
        np.testing.assert_allclose(scores[i], alone_scores[0], atol=1e-5)
        for j, length in enumerate(alone_lengths[0]):
            assert ids[i, j, :length].tolist() == alone_ids[0, j, :length].tolist()


@pytest.mark.parametrize("shape", [(0, 3), (0, 0), (2, 0)])
def test_empty_batches_and_widths_work(translator, shape):
    found = generator_of(translator).search(np.zeros(shape, "int32"), np.zeros(shape[:1], "int32"))
    ids, lengths, scores = map(ops.convert_to_numpy, found)
    assert ids.shape[:2] == lengths.shape == scores.shape == (shape[0], 1)
    assert not ids.any()


def test_it_scores_as_the_translator_does(translator, tokenizer):
    sources, targets = [*sentences(4, seed=4), "", "house"], [*sentences(4, seed=5), "tree", ""]
    arrays = []
    for texts in (sources, targets):
        rows = tokenizer.encode(texts)
        lengths = np.array([len(row) for row in rows], "int32")
        ids = np.full((len(rows), max(lengths)), 99, "int32")
        for i, row in enumerate(rows):
            ids[i, : len(row)] = row
        arrays += [ids, lengths]
    scores = ops.convert_to_numpy(generator_of(translator).score(*arrays))
    np.testing.assert_allclose(scores, translator.score(sources, targets), atol=1e-4)


def test_learned_positions_limit_source_and_output(tokenizer):
    translator = Translator(
        build(tokenizer, positions="learned", max_length=6), tokenizer, **OPTIONS
    )
    generator = generator_of(translator)
    assert generator.options.max_source_length == 6
    _, lengths, _ = search(generator, [[7, 8, 9, 10, 11, 7, 8, 9, 10]])
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

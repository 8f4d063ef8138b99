"""One search for several length penalties against a search for each."""

import functools
import itertools
import math

import numpy as np
import pytest

from keras_transformer.decoding import (
    ForcedPrefix,
    MinimumLength,
    NoRepeatNgrams,
    beam_search,
    beam_search_of_alphas,
)
from keras_transformer.types import SpecialTokens
from tests.decoding.fake_models import EOS, A, B, C, D, HistoryModel, chain_step, run
from tests.decoding.numpy_beam_search import numpy_beam_search, without_padding

TOKENS = SpecialTokens()
BOS = TOKENS.bos
ALPHAS = [0.0, 0.3, 0.6, 1.0, 1.5, 2.0, 4.0]


sweep = functools.partial(run, beam_search_of_alphas, limits=(8,), beam_size=2, alphas=ALPHAS)


def one_by_one(step, state, *, alphas, **options):
    """The same from a search for each alpha."""
    found = [
        run(beam_search, step, state, alpha=alpha, num_results=1, **options) for alpha in alphas
    ]
    return [np.concatenate(parts, axis=1) for parts in zip(*found, strict=True)]


def test_each_alpha_has_its_own_output():
    step = chain_step(
        {BOS: {A: 0.5, B: 0.45}, A: {EOS: 1.0}, B: {C: 1.0}, C: {D: 1.0}, D: {EOS: 1.0}}
    )
    ids, scores = sweep(step, alphas=[1.0, 0.0])
    assert [without_padding(row) for row in ids[0]] == [(B, C, D, EOS), (A, EOS)]
    np.testing.assert_allclose(scores[0], [math.log(0.45) / (9 / 6), math.log(0.5)], rtol=1e-5)


def test_of_equal_scores_the_earlier_output_stays():
    step = chain_step({BOS: {EOS: 0.5, A: 0.5}, A: {EOS: 1.0}})
    ids, scores = sweep(step, alphas=[0.0, 0.5])
    assert [without_padding(row) for row in ids[0]] == [(EOS,), (A, EOS)]
    np.testing.assert_allclose(scores[0], math.log(0.5) / np.array([1, (7 / 6) ** 0.5]), rtol=1e-5)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_equals_a_reference_for_every_alpha(seed):
    generator = np.random.default_rng(seed)
    model = HistoryModel(seed, sharpness=generator.uniform(0.3, 3.0))
    beam_size, form = int(generator.integers(1, 6)), ["gnmt", "power"][seed % 2]
    limits, sentences = generator.integers(0, 12, size=6), generator.normal(size=(6, 8))
    state = model.start(sentences, beam_size)
    ids, scores = sweep(model.step, state, limits=limits, beam_size=beam_size, length_penalty=form)
    assert (ids.shape, ids.dtype) == ((6, len(ALPHAS), max(limits) + 1), np.int32)
    for row, sentence in enumerate(sentences):
        for i, alpha in enumerate(ALPHAS):
            tokens, score = numpy_beam_search(
                model.log_probs_after(sentence, BOS),
                beam_size=beam_size,
                alpha=alpha,
                limit=int(limits[row]),
                special_tokens=TOKENS,
                length_penalty=form,
            )[0]
            assert without_padding(ids[row, i]) == tokens
            np.testing.assert_allclose(scores[row, i], score, atol=1e-5)


def constraints(limits):
    prefix = np.array([[B, 0], [A, B], [0, 0]] * (len(limits) // 3))
    return (
        ForcedPrefix(prefix, TOKENS, 11),
        MinimumLength(3, TOKENS, 11),
        NoRepeatNgrams(2, 11),
    )


@pytest.mark.parametrize(
    ("constrained", "length_penalty", "num_sentences", "alphas"),
    [
        (True, "gnmt", 3, [0.0, 0.6, 2.0]),
        *(
            pytest.param(*case, 24, [i / 10 for i in range(21)], marks=pytest.mark.slow)
            for case in itertools.product([False, True], ["gnmt", "power"])
        ),
    ],
)
def test_equals_a_search_for_each_alpha(
    constrained, length_penalty, num_sentences, alphas, random_seed
):
    generator = np.random.default_rng([random_seed, constrained])
    model = HistoryModel(random_seed, sharpness=0.8)
    limits = generator.integers(4, 3 + num_sentences, size=num_sentences)
    options = {
        "limits": limits,
        "beam_size": 4,
        "alphas": alphas,
        "length_penalty": length_penalty,
        "vocabulary_size": 10,
        "constraints": constraints(limits) if constrained else (),
    }
    state = model.start(generator.normal(size=(num_sentences, 8)), 4)
    ids, scores = sweep(model.step, state, **options)
    expected_ids, expected_scores = one_by_one(model.step, state, **options)
    assert any(len({without_padding(row) for row in rows}) > 1 for rows in ids)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-6)


def test_the_search_goes_on_until_the_last_alpha_is_final():
    step = chain_step({BOS: {EOS: 0.6, A: 0.4}, A: {A: 0.8, EOS: 0.2}})
    ids, _ = sweep(step, limits=[12], alphas=[0.0, 3.0])
    assert [without_padding(row) for row in ids[0]] == [(EOS,), (*[A] * 12, EOS)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"alphas": []}, r"`alphas` must contain at least one number. Received: alphas=\[\]"),
        ({"alphas": [0.6, -1]}, "`alpha` must be a number >= 0. Received: alpha=-1"),
        ({"alphas": [10]}, "`alpha` must be less than 10. Received: alpha=10"),
        ({"beam_size": 0}, "`beam_size` must be a positive integer. Received: beam_size=0"),
        ({"length_penalty": "no"}, "`length_penalty` must be one of"),
    ],
)
def test_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        sweep(chain_step({}), **arguments)

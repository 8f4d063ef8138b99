import functools
import itertools
import math

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import beam_search
from keras_transformer.decoding.beam_search import BeamState, should_continue
from keras_transformer.types import SpecialTokens
from tests.decoding.fake_models import EOS, A, B, C, D, HistoryModel, chain_step, run
from tests.decoding.numpy_beam_search import numpy_beam_search, without_padding

TOKENS = SpecialTokens()
BOS = TOKENS.bos


search = functools.partial(run, beam_search, limits=(8,), beam_size=2, alpha=0.0)


def test_finds_the_path_that_greedy_misses():
    step = chain_step({BOS: {A: 0.6, B: 0.4}, A: {C: 0.5, EOS: 0.5}, B: {EOS: 0.9}, C: {EOS: 0.6}})
    ids, scores = search(step)
    assert ids[0].tolist() == [[B, EOS] + [0] * 7, [A, EOS] + [0] * 7]
    np.testing.assert_allclose(scores, np.log([[0.36, 0.3]]), rtol=1e-5)


def test_a_finished_hypothesis_pays_nothing_while_the_search_goes_on():
    # [A EOS] has ended at the second step; [B C C ...] takes the other place at the limit of 12.
    step = chain_step({BOS: {A: 0.5, B: 0.5}, A: {EOS: 0.8}, B: {C: 1.0}, C: {C: 0.9, EOS: 0.1}})
    ids, scores = search(step, alpha=1.0, limits=[12])
    assert [without_padding(row) for row in ids[0]] == [(A, EOS), (B, *[C] * 11, EOS)]
    expected = [math.log(0.4) / (7 / 6), math.log(0.5 * 0.9**10 * 0.1) / (18 / 6)]
    np.testing.assert_allclose(scores[0], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("alpha", "best", "score"),
    [
        (0.0, (A, EOS), math.log(0.5)),  # -0.69 against -0.80
        (1.0, (B, C, D, EOS), math.log(0.45) / (9 / 6)),  # -0.53 against -0.69 / (7 / 6) = -0.59
    ],
)
def test_the_length_penalty_decides_between_short_and_long(alpha, best, score):
    step = chain_step(
        {BOS: {A: 0.5, B: 0.45}, A: {EOS: 1.0}, B: {C: 1.0}, C: {D: 1.0}, D: {EOS: 1.0}}
    )
    ids, scores = search(step, alpha=alpha)
    assert without_padding(ids[0, 0]) == best
    np.testing.assert_allclose(scores[0, 0], score, rtol=1e-5)


def test_marian_s_outputs_have_no_end_at_the_limit():
    step = chain_step({BOS: {A: 0.6, EOS: 0.4}, A: {A: 0.7, EOS: 0.3}})
    options = {"alpha": 1.0, "length_penalty": "power", "ending": "marian"}
    ids, scores = search(step, limits=[2], **options)
    assert [without_padding(row) for row in ids[0]] == [(A, A, EOS), (EOS,)]
    # Two tokens at the limit, neither of them an end; one token that is.
    np.testing.assert_allclose(scores[0], [math.log(0.6 * 0.7) / 2, math.log(0.4)], rtol=1e-5)
    ids, scores = search(step, limits=[0], **options)
    assert without_padding(ids[0, 0]) == (EOS,)
    assert scores[0, 0] == 0


def test_equals_the_enumeration_of_all_outputs_when_the_beam_holds_them_all():
    model = HistoryModel(seed=0, vocabulary_size=6)
    sentence = np.random.default_rng(1).normal(size=(1, 8))
    log_probs_after = model.log_probs_after(sentence[0], BOS)
    outputs = {}
    for length in range(3):
        for prefix in itertools.product((A, B, C), repeat=length):
            tokens = (*prefix, EOS)
            total = sum(log_probs_after(tokens[:i])[token] for i, token in enumerate(tokens))
            outputs[tokens] = total / ((5 + len(tokens)) / 6) ** 0.6
    best_first = sorted(outputs, key=outputs.get, reverse=True)

    ids, scores = search(model.step, model.start(sentence, 13), limits=[2], beam_size=13, alpha=0.6)
    assert [without_padding(row) for row in ids[0]] == best_first
    np.testing.assert_allclose(scores[0], sorted(outputs.values(), reverse=True), atol=1e-5)


@pytest.mark.parametrize(
    ("seed", "length_penalty", "ending"),
    [
        (seed, form, ending)
        for seeds, form, ending in (
            (range(8), "gnmt", "any"),
            (range(8, 12), "power", "any"),
            (range(12, 20), "power", "transformers"),
            (range(20, 28), "power", "marian"),
        )
        for seed in seeds
    ],
)
def test_equals_a_reference(seed, length_penalty, ending):
    generator = np.random.default_rng(seed)
    model = HistoryModel(seed, sharpness=generator.uniform(0.3, 3.0))
    beam_size, alpha = int(generator.integers(1, 6)), float(generator.choice([0.0, 0.6, 1.5]))
    limits = generator.integers(0, 14, size=12)
    sentences = generator.normal(size=(12, 8))

    ids, scores = search(
        model.step,
        model.start(sentences, beam_size),
        limits=limits,
        beam_size=beam_size,
        alpha=alpha,
        length_penalty=length_penalty,
        ending=ending,
    )
    for row, sentence in enumerate(sentences):
        expected = numpy_beam_search(
            model.log_probs_after(sentence, BOS),
            beam_size=beam_size,
            alpha=alpha,
            limit=int(limits[row]),
            special_tokens=TOKENS,
            length_penalty=length_penalty,
            ending=ending,
        )
        found = np.isfinite(scores[row])
        assert [without_padding(i) for i in ids[row, found]] == [tokens for tokens, _ in expected]
        np.testing.assert_allclose(scores[row, found], [s for _, s in expected], atol=1e-5)


def test_a_place_that_no_hypothesis_took_is_padding_and_minus_infinity():
    ids, scores = search(chain_step({BOS: {EOS: 0.25, A: 0.75}}), limits=[0], beam_size=3)
    assert ids[0].tolist() == [[EOS], [0], [0]]
    np.testing.assert_allclose(scores[0], [math.log(0.25), -np.inf, -np.inf], rtol=1e-5)


def test_a_vocabulary_smaller_than_the_number_of_candidates():
    step = chain_step({token: {3: 0.5, EOS: 0.5} for token in (BOS, 3)}, vocabulary_size=4)
    ids, scores = search(step, limits=[3], beam_size=4)
    assert [len(without_padding(row)) for row in ids[0]] == [1, 2, 3, 4]
    np.testing.assert_allclose(scores[0], np.log([0.5, 0.25, 0.125, 0.0625]), rtol=1e-5)


def test_scores_are_float32_for_logits_of_less_precision():
    step = chain_step({BOS: {A: 0.5, EOS: 0.5}, A: {EOS: 1.0}})

    def low_precision_step(tokens, index, state):
        logits, state = step(tokens, index, state)
        return ops.cast(logits, "bfloat16"), state

    _, scores = search(low_precision_step)
    assert scores.dtype == np.float32
    np.testing.assert_allclose(scores[0], np.log([0.5, 0.5]), atol=1e-2)


@pytest.mark.parametrize(
    ("live", "finished", "num_results", "goes_on"),
    [
        (-2.0, [-0.1, -math.inf], 2, True),  # an empty place can always be taken
        (-2.0, [-0.1, -1.01], 2, True),  # -2 / ((5 + 7) / 6) = -1 at the limit, which is better
        (-2.0, [-0.1, -0.99], 2, False),
        (-2.0, [-0.99, -math.inf], 1, False),  # the second place is not asked for
        (-2.0, [-1.01, -math.inf], 1, True),
        (-math.inf, [-0.1, -math.inf], 2, False),  # nothing lives, at the limit for instance
    ],
)
def test_stops_when_no_live_hypothesis_can_become_a_result(live, finished, num_results, goes_on):
    beams = BeamState(
        index=ops.convert_to_tensor(3),
        tokens=ops.convert_to_tensor([[A, A]]),
        live_ids=ops.convert_to_tensor([[[A], [A]]]),
        live_log_probs=ops.convert_to_tensor([[live, -math.inf]]),
        finished_ids=ops.convert_to_tensor([[[A], [A]]]),
        finished_scores=ops.convert_to_tensor([finished]),
        model_state=(),
    )
    limits = ops.convert_to_tensor([6])
    assert bool(should_continue(beams, limits, 1.0, num_results)) is goes_on


def test_fewer_results_are_the_best_of_all():
    model = HistoryModel(seed=5, sharpness=0.7)
    sentences = np.random.default_rng(5).normal(size=(12, 8))
    state, limits = model.start(sentences, 4), [12] * 12
    ids, scores = search(model.step, state, limits=limits, beam_size=4, alpha=0.6)
    for n in (1, 3):
        best_ids, best_scores = search(
            model.step, state, limits=limits, beam_size=4, alpha=0.6, num_results=n
        )
        assert best_ids.tolist() == ids[:, :n].tolist()
        np.testing.assert_allclose(best_scores, scores[:, :n], atol=1e-6)


def test_the_state_may_be_any_nest_and_follows_its_hypothesis():
    # The state counts the tokens A seen by each hypothesis; after two of them, EOS is certain.
    def step(tokens, index, state):
        seen = state["seen"][0] + ops.cast(tokens == A, "float32")
        is_sated = ops.expand_dims(seen >= 2, -1)
        going = ops.log(ops.convert_to_tensor([1e-9, 1e-9, 1e-9, 0.7, 0.3]))
        ending = ops.log(ops.convert_to_tensor([1e-9, 1e-9, 1.0, 1e-9, 1e-9]))
        return ops.where(is_sated, ending, going), {"seen": (seen,)}

    ids, scores = search(step, {"seen": (ops.zeros((1, 3)),)}, limits=[6], beam_size=3)
    assert without_padding(ids[0, 0]) == (A, A, EOS)
    assert {without_padding(row) for row in ids[0, 1:]} == {(A, B, A, EOS), (B, A, A, EOS)}
    np.testing.assert_allclose(scores[0], np.log([0.49, 0.147, 0.147]), rtol=1e-4)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"beam_size": 0}, "`beam_size` must be a positive integer. Received: beam_size=0"),
        ({"alpha": -0.5}, "`alpha` must be a number >= 0. Received: alpha=-0.5"),
        ({"num_results": 0}, "`num_results` must be a positive integer. Received: num_results=0"),
        ({"num_results": 3}, "at most `beam_size`. Received: num_results=3, beam_size=2"),
        ({"alpha": "much"}, "`alpha` must be a number >= 0. Received: alpha='much'"),
    ],
)
def test_refuses_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        search(chain_step({}), **arguments)

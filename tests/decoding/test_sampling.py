import math

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import greedy_search, sample
from keras_transformer.types import SpecialTokens
from tests.decoding.fake_models import EOS, A, B, C, D, HistoryModel, chain_step, run

TOKENS = SpecialTokens()
BOS = TOKENS.bos
# After BOS, probabilities whose sums no rounding brings near to a bound of these tests.
FIRST = {A: 0.4, B: 0.1, C: 0.3, D: 0.2}
ONE_TOKEN = chain_step({BOS: FIRST, **{token: {EOS: 1.0} for token in FIRST}})


def draw(step, uniforms, state=(), *, limits=None, **options):
    """Run the sampling; return ids and log-probabilities as NumPy arrays."""
    uniforms = np.asarray(uniforms, "float32")
    batch_size, num_samples, length = uniforms.shape
    limits = [length - 1] * batch_size if limits is None else limits
    options |= {"uniforms": uniforms, "num_samples": num_samples, "max_length": length - 1}
    return run(sample, step, state, limits=limits, **options)


def shares(**options):
    """How often each first token is drawn with 1000 numbers spread evenly over [0, 1)."""
    uniforms = np.zeros((1, 1000, 2))
    uniforms[0, :, 0] = (np.arange(1000) + 0.5) / 1000
    ids, log_probs = draw(ONE_TOKEN, uniforms, **options)
    for token, log_prob in zip(ids[0, :, 0], log_probs[0], strict=True):
        assert log_prob == pytest.approx(math.log(FIRST[token]), abs=1e-5)  # the model's own
    return {token: float(np.mean(ids[0, :, 0] == token)) for token in FIRST}


def softened(temperature):
    """The first token's probabilities at a temperature, by the formula."""
    powers = {token: probability ** (1 / temperature) for token, probability in FIRST.items()}
    return {token: power / sum(powers.values()) for token, power in powers.items()}


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, FIRST),
        ({"top_p": 1.0}, FIRST),
        ({"top_k": 9}, FIRST),
        ({"temperature": 0.5}, softened(0.5)),
        ({"temperature": 2.0}, softened(2.0)),
        ({"temperature": 1e-300}, {A: 1.0}),
        ({"top_k": 2}, {A: 4 / 7, C: 3 / 7}),
        ({"top_p": 0.39}, {A: 1.0}),
        ({"top_p": 0.41}, {A: 4 / 7, C: 3 / 7}),
        ({"top_p": 0.89}, {A: 4 / 9, C: 3 / 9, D: 2 / 9}),
        ({"top_k": 3, "top_p": 0.7}, {A: 4 / 7, C: 3 / 7}),  # 4/9 + 3/9 of what top-k leaves
        ({"temperature": 0.5, "top_p": 0.8}, {A: 16 / 25, C: 9 / 25}),  # squares: 16, 9, 4, 1
    ],
    ids=str,
)
def test_tokens_are_drawn_by_their_share(options, expected):
    actual = shares(**options)
    for token in FIRST:
        assert actual[token] == pytest.approx(expected.get(token, 0.0), abs=0.0011)


def test_a_number_decides_its_own_token():
    step = chain_step({BOS: {A: 0.4, B: 0.6}, A: {C: 0.5, EOS: 0.5}, B: {EOS: 1.0}, C: {EOS: 1.0}})
    # In the order of ids: A below 0.4; EOS (2) before C (5), each with one half.
    uniforms = [[[0.39, 0.51, 0.9], [0.39, 0.49, 0.9]], [[0.41, 0.1, 0.1], [0.01, 0.99, 0.99]]]
    ids, log_probs = draw(step, uniforms)
    assert ids.tolist() == [[[A, C, EOS], [A, EOS, 0]], [[B, EOS, 0], [A, C, EOS]]]
    np.testing.assert_allclose(log_probs, np.log([[0.2, 0.2], [0.6, 0.2]]), rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"top_k": 4}, {"top_p": 0.95}], ids=str)
def test_the_least_and_the_largest_number_draw_what_is_possible(options):
    step = chain_step({BOS: {A: 0.0, B: 1.0}, B: {EOS: 1.0}}, vocabulary_size=32)
    uniforms = np.zeros((1, 3, 2))
    uniforms[0, 1:, 0] = np.float32(1 - 2**-24), 1.0  # 1: a float64 just below it, rounded
    ids, log_probs = draw(step, uniforms, vocabulary_size=7, temperature=0.1, **options)
    assert ids.tolist() == [[[B, EOS]] * 3]
    np.testing.assert_allclose(log_probs, 0.0, atol=1e-5)


def test_one_candidate_is_greedy_search():
    model = HistoryModel(seed=0)
    sentences = np.random.default_rng(0).normal(size=(4, 8))
    uniforms = np.random.default_rng(1).random((4, 2, 10))
    ids, log_probs = draw(model.step, uniforms, model.start(sentences, 2), top_k=1)
    greedy_ids, greedy_log_probs = run(
        greedy_search, model.step, model.start(sentences, 1), limits=[9] * 4
    )
    for one in range(2):
        assert ids[:, one].tolist() == greedy_ids.tolist()
        np.testing.assert_allclose(log_probs[:, one], greedy_log_probs, atol=1e-5)


def numpy_sample(log_probs_after, uniforms, limit):
    """One sample by the inverse of the cumulative distribution, in float64."""
    tokens, total = (), 0.0
    while not tokens or tokens[-1] != EOS:
        log_probs = log_probs_after(tokens)
        cumulative = np.cumsum(np.exp(log_probs[2:]))  # without padding and BOS
        token = 2 + int(np.sum(cumulative <= uniforms[len(tokens)] * cumulative[-1]))
        token = token if len(tokens) < limit else EOS
        tokens, total = (*tokens, token), total + log_probs[token]
    return tokens, total


def test_equals_a_reference_in_float64_alone_and_among_others():
    model = HistoryModel(seed=2, sharpness=0.8)
    sentences = np.random.default_rng(2).normal(size=(5, 8))
    uniforms = np.random.default_rng(3).random((5, 3, 9), dtype="float32")
    limits = [8, 3, 0, 5, 8]
    ids, log_probs = draw(model.step, uniforms, model.start(sentences, 3), limits=limits)
    for row, sentence in enumerate(sentences):
        for one in range(3):
            tokens, total = numpy_sample(
                model.log_probs_after(sentence, BOS), uniforms[row, one], limits[row]
            )
            assert ids[row, one].tolist() == [*tokens, *[0] * (9 - len(tokens))]
            np.testing.assert_allclose(log_probs[row, one], total, atol=1e-4)
    alone, _ = draw(
        model.step, uniforms[3:4, 1:2], model.start(sentences[3:4], 1), limits=limits[3:4]
    )
    assert alone[0, 0].tolist() == ids[3, 1].tolist()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "`temperature` must be a finite number > 0. Received: temperature=0"),
        ({"temperature": math.inf}, "`temperature` must be a finite number > 0. Received: .*=inf"),
        ({"temperature": "hot"}, "`temperature` must be a finite number > 0. Received: .*='hot'"),
        ({"top_k": 0}, "`top_k` must be a positive integer. Received: top_k=0"),
        ({"top_p": 0.0}, r"`top_p` must be a number in \(0, 1\]. Received: top_p=0.0"),
        ({"top_p": 1.01}, r"`top_p` must be a number in \(0, 1\]. Received: top_p=1.01"),
    ],
)
def test_refuses_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        draw(ONE_TOKEN, np.zeros((1, 1, 2)), **options)


@pytest.mark.parametrize(
    ("shape", "max_length", "message"),
    [
        ((1, 1, 2), 2, r"have at least `max_length` \+ 1 .*\(1, 1, 2\), max_length=2"),
        ((1, 2), 1, r"have the shape \(batch, num_samples, length\). .*\(1, 2\)$"),
    ],
)
def test_refuses_numbers_of_another_shape(shape, max_length, message):
    options = {"batch_size": 1, "num_samples": 1, "limits": [1], "special_tokens": TOKENS}
    with pytest.raises(ValueError, match=f"`uniforms` must {message}"):
        sample(ONE_TOKEN, (), np.zeros(shape), max_length=max_length, **options)


def test_logits_that_are_no_numbers_end_at_the_limit():
    def step(tokens, index, state):
        return ops.full((1, 2, 7), float("nan"), dtype="float32"), state

    ids, log_probs = draw(step, np.full((1, 2, 5), 0.5), limits=[3])
    assert ids[0, :, 3].tolist() == [EOS, EOS]
    assert np.isnan(log_probs).all()

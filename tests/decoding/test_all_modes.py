"""Every way of decoding keeps the same rules: greedy and beam search, sampling, ensembles.

Sampling comes in two modes that draw the most probable token, so that its answers are known too:
the smallest number from sorted candidates, and any number at a temperature near 0.
"""

import dataclasses
import functools

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import (
    ForcedPrefix,
    MinimumLength,
    NoRepeatNgrams,
    beam_search,
    greedy_search,
    length_penalty,
    sample,
)
from keras_transformer.decoding.constraints import LimitedRepeats
from keras_transformer.decoding.ensemble import average_probabilities
from keras_transformer.types import SpecialTokens
from tests.decoding.fake_models import EOS, A, B, C, D, HistoryModel, chain_step, run
from tests.decoding.numpy_beam_search import numpy_beam_search
from tests.decoding.numpy_constraints import allowed_after

TOKENS = SpecialTokens()
PAD, BOS = TOKENS.pad, TOKENS.bos
VOCABULARY = 7  # logits of `chain_step`: the special tokens and A to D, where A has the id of UNK


@dataclasses.dataclass(frozen=True)
class Mode:
    """A search as `(step, state, num_sentences, **rules) -> ids, log_probs` of the best output."""

    name: str
    width: int  # hypotheses of a sentence
    search: object

    def __call__(self, step, limits, state=(), max_length=None, **rules):
        """Rows of tokens, and their log-probabilities, as lists with an entry a sentence."""
        ids, log_probs = run(
            self.search, step, state, limits=limits, max_length=max_length, **rules
        )
        assert (ids.dtype, log_probs.dtype) == (np.int32, np.float32)
        assert ids.shape == (len(limits), 1 + (max_length or max(limits)))
        return [without_padding(row) for row in ids], log_probs


def without_padding(row):
    """The tokens up to EOS; behind it, there must be padding alone."""
    end = list(row).index(EOS) + 1
    assert set(row[end:]) <= {PAD}
    return tuple(int(token) for token in row[:end])


def best_of_beam(step, state, *, alpha=0.0, **arguments):
    ids, scores = beam_search(step, state, beam_size=3, alpha=alpha, **arguments)
    ids, scores = ops.convert_to_numpy(ids), ops.convert_to_numpy(scores)
    lengths = np.sum(ids[:, 0] != PAD, axis=1)
    return ids[:, 0], scores[:, 0] * length_penalty(lengths.astype("float32"), alpha)


def only_sample(step, state, *, batch_size, max_length, draw=np.zeros, **arguments):
    uniforms = draw((batch_size, 1, max_length + 1)).astype("float32")
    ids, log_probs = sample(
        step,
        state,
        uniforms,
        batch_size=batch_size,
        num_samples=1,
        max_length=max_length,
        **arguments,
    )
    return ids[:, 0], log_probs[:, 0]


MODES = [
    Mode("greedy", 1, greedy_search),
    Mode("beam", 3, best_of_beam),
    Mode("sample of sorted", 1, functools.partial(only_sample, top_p=1.0)),
    Mode(
        "cold sample",
        1,
        functools.partial(only_sample, temperature=1e-3, draw=np.random.default_rng(0).random),
    ),
]


@pytest.fixture(params=MODES, ids=lambda mode: mode.name)
def decode(request):
    """A mode of decoding."""
    return request.param


def prefixes(*rows):
    width = max(map(len, rows))
    ids = np.array([[*row, *[PAD] * (width - len(row))] for row in rows], "int32")
    return ForcedPrefix(ids, TOKENS, VOCABULARY)


def at_least(lengths):
    return MinimumLength(lengths, TOKENS, VOCABULARY)


def test_takes_the_most_probable_path_to_eos(decode):
    step = chain_step({BOS: {A: 0.8, B: 0.2}, A: {C: 0.7, EOS: 0.3}, C: {EOS: 0.9, D: 0.1}})
    rows, log_probs = decode(step, limits=[5, 9])
    assert rows == [(A, C, EOS)] * 2
    np.testing.assert_allclose(log_probs, np.log([0.8 * 0.7 * 0.9] * 2), rtol=1e-5)


def test_each_sentence_has_its_own_limit_and_pays_nothing_after_eos(decode):
    step = chain_step({token: {A: 0.75, EOS: 0.25} for token in (BOS, A)})
    # For the beam, so long an output is favored that every hypothesis wants to go on.
    favor_length = {"alpha": 6.0} if decode.name == "beam" else {}
    rows, log_probs = decode(step, limits=[0, 1, 3], max_length=4, **favor_length)
    assert rows == [(EOS,), (A, EOS), (A, A, A, EOS)]
    np.testing.assert_allclose(log_probs, np.log([0.25, 0.75 * 0.25, 0.75**3 * 0.25]), rtol=1e-5)


def test_special_ids_come_from_the_record(decode):
    tokens = SpecialTokens(pad=5, bos=4, eos=0, unk=1)
    step = chain_step({4: {2: 0.7, 0: 0.3}, 2: {0: 0.9, 2: 0.1}}, padding_id=5)
    ids, log_probs = run(decode.search, step, limits=[3], special_tokens=tokens)
    assert ids.tolist() == [[2, 0, 5, 5]]
    np.testing.assert_allclose(log_probs, np.log([0.63]), rtol=1e-5)


@pytest.mark.parametrize("as_limits", [list, np.array])
def test_a_limit_beyond_the_room_for_tokens_is_refused(decode, as_limits):
    arguments = {"batch_size": 2, "special_tokens": TOKENS, "max_length": 2}
    message = "`max_length` must be at least the largest.* max_length=2, largest=3"
    with pytest.raises(ValueError, match=message):
        decode.search(chain_step({}), (), limits=as_limits([1, 3]), **arguments)


def test_padding_and_bos_are_never_produced_and_keep_their_probability(decode):
    step = chain_step({BOS: {PAD: 0.5, BOS: 0.3, A: 0.2}, A: {PAD: 0.6, EOS: 0.4}})
    rows, log_probs = decode(step, limits=[3])
    assert rows == [(A, EOS)]
    np.testing.assert_allclose(log_probs, [np.log(0.2 * 0.4)], rtol=1e-5)


@pytest.mark.parametrize("constraints", [(), (at_least(0),)], ids=["free", "constrained"])
def test_padding_of_the_vocabulary_is_never_produced_and_keeps_its_probability(decode, constraints):
    # C and D are padding here: more probable than every token.
    step = chain_step({BOS: {C: 0.4, D: 0.4, A: 0.15, B: 0.05}, A: {D: 0.7, EOS: 0.3}})
    rows, log_probs = decode(step, limits=[3], vocabulary_size=C, constraints=constraints)
    assert rows == [(A, EOS)]
    np.testing.assert_allclose(log_probs, [np.log(0.15 * 0.3)], rtol=1e-5)


def test_a_beam_is_full_whatever_the_padding_of_the_vocabulary():
    padding = dict.fromkeys(range(7, 17), 0.09)
    step = chain_step(
        {BOS: {**padding, A: 0.06, B: 0.04}, A: {EOS: 1.0}, B: {EOS: 1.0}}, vocabulary_size=17
    )
    options = {"beam_size": 2, "alpha": 0.0, "vocabulary_size": 7}
    ids, scores = run(beam_search, step, limits=[2], **options)
    assert ids.tolist() == [[[A, EOS, PAD], [B, EOS, PAD]]]
    np.testing.assert_allclose(scores, np.log([[0.06, 0.04]]), rtol=1e-4)


def test_each_output_begins_with_its_own_prefix(decode):
    step = chain_step(
        {
            BOS: {A: 0.9, B: 0.1},
            A: {EOS: 0.8, C: 0.2},
            B: {A: 0.75, C: 0.25},
            C: {D: 0.6, EOS: 0.4},
            D: {EOS: 1.0},
        }
    )
    constraints = (prefixes((B, C), (B,), (), (A, EOS), (A, BOS)),)
    rows, log_probs = decode(step, limits=[5] * 5, constraints=constraints)
    assert rows == [(B, C, D, EOS), (B, A, EOS), (A, EOS), (A, EOS), (A, EOS)]
    expected = [0.1 * 0.25 * 0.6, 0.1 * 0.75 * 0.8, 0.9 * 0.8, 0.9 * 0.8, 0.9 * 0.8]
    np.testing.assert_allclose(log_probs, np.log(expected), rtol=1e-5)


def test_no_output_is_shorter_than_the_minimum(decode):
    step = chain_step({BOS: {EOS: 0.7, A: 0.3}, A: {EOS: 0.6, B: 0.4}, B: {EOS: 0.9, B: 0.1}})
    rows, log_probs = decode(step, limits=[6] * 3, constraints=(at_least([0, 1, 3]),))
    assert rows == [(EOS,), (A, EOS), (A, B, B, EOS)]
    np.testing.assert_allclose(
        log_probs, np.log([0.7, 0.3 * 0.6, 0.3 * 0.4 * 0.1 * 0.9]), rtol=1e-5
    )
    assert decode(step, limits=[6] * 2, constraints=(at_least(1),))[0] == [(A, EOS)] * 2


@pytest.mark.parametrize(
    ("n", "expected", "probability"),
    [
        (1, (A, B, EOS), 0.9 * 0.9 * 0.02),
        (2, (A, B, A, EOS), 0.9 * 0.9 * 0.9 * 0.02),
        (3, (A, B, A, B, EOS), 0.9**4 * 0.02),
    ],
)
def test_no_ngram_is_repeated(decode, n, expected, probability):
    step = chain_step({BOS: {A: 0.9, EOS: 0.02}, A: {B: 0.9, EOS: 0.02}, B: {A: 0.9, EOS: 0.02}})
    favor_length = {"alpha": 1.0} if decode.name == "beam" else {}
    rows, log_probs = decode(
        step, limits=[9], constraints=(NoRepeatNgrams(n, VOCABULARY),), **favor_length
    )
    assert rows == [expected]
    np.testing.assert_allclose(log_probs, [np.log(probability)], rtol=1e-5)


def test_a_loop_is_as_long_as_the_guard_the_source_or_the_prefix_allows(decode):
    step = chain_step({BOS: {A: 0.9}, A: {A: 0.9, EOS: 0.02}})
    favor_length = {"alpha": 1.0} if decode.name == "beam" else {}
    sources = np.array([[C, D, *[PAD] * 12], [C] * 14, [C] * 14])
    guard = LimitedRepeats.of(10, sources, PAD, VOCABULARY)
    rows, _ = decode(step, limits=[30, 20, 30], constraints=(guard,), **favor_length)
    assert [len(row) - 1 for row in rows] == [10, 20, 10 + 13]
    constraints = (prefixes([A] * 12, [], []), guard)
    rows, _ = decode(step, limits=[30] * 3, constraints=constraints, **favor_length)
    assert [len(row) - 1 for row in rows] == [12, 10 + 13, 10 + 13]


def test_the_limit_outranks_every_constraint(decode):
    step = chain_step({token: {A: 0.5, B: 0.3, EOS: 0.2} for token in (BOS, A, B)})
    constraints = (prefixes((B, B, B)), at_least(4))
    rows, log_probs = decode(step, limits=[2], max_length=5, constraints=constraints)
    assert rows == [(B, B, EOS)]
    np.testing.assert_allclose(log_probs, [np.log(0.3 * 0.3 * 0.2)], rtol=1e-5)


def test_of_constraints_that_leave_nothing_the_first_holds(decode):
    step = chain_step({token: {A: 0.7, EOS: 0.3} for token in (BOS, A)}, vocabulary_size=4)
    unigrams = NoRepeatNgrams(1, 4)
    prefix = ForcedPrefix(np.array([[A, A]], "int32"), TOKENS, 4)
    minimum = MinimumLength(3, TOKENS, 4)
    assert decode(step, limits=[5], constraints=(prefix, unigrams))[0] == [(A, A, EOS)]
    assert decode(step, limits=[5], constraints=(minimum, unigrams))[0] == [(A, A, A, EOS)]
    assert decode(step, limits=[5], constraints=(unigrams, minimum))[0] == [(A, EOS)]


LIMITS = (9, 4, 0, 12, 7, 9)
PREFIXES = ((4, 5, 6), (7,), (8,), (), (4, 4, 4, 4), (9, 2))
MINIMA = (5, 0, 3, 12, 6, 4)
REAL = 10  # of 11 logits


SOURCES = ((4, 5, 6), (7, 7, 7), (8,), (), (4, 5, 4, 5), (9, 2))
# The rules of `allowed_after`, by the name of a case.
RULES = {"free": (), "strict": ("prefix", "min_length", "ngram"), "guard": ("repeats",)}
RULES["all"] = RULES["strict"] + RULES["guard"]


def random_case(seed, width, case):
    """A random model with its state, and the rules of six sentences."""
    model, sentences = HistoryModel(seed), np.random.default_rng(seed).normal(size=(6, 8))
    ids = np.array([[*row, *[PAD] * (4 - len(row))] for row in PREFIXES], "int32")
    sources = np.array([[*row, *[PAD] * (4 - len(row))] for row in SOURCES], "int32")
    constraints = {
        "prefix": ForcedPrefix(ids, TOKENS, 11),
        "min_length": MinimumLength(MINIMA, TOKENS, 11),
        "ngram": NoRepeatNgrams(2, 11),
        "repeats": LimitedRepeats.of(1, sources, PAD, 11),
    }
    rules = {"vocabulary_size": REAL, "max_length": 12}
    rules["constraints"] = [constraints[name] for name in RULES[case]]
    return model, sentences, {"state": model.start(sentences, width), **rules}


def may_follow(row, case):
    """Function from a hypothesis of sentence `row` to the tokens that may follow it."""
    values = {"prefix": PREFIXES[row], "min_length": MINIMA[row], "ngram": 2, "repeats": 1}
    rules = {"limit": LIMITS[row], "source": SOURCES[row]}
    rules |= {name: values[name] for name in RULES[case]}
    return functools.partial(allowed_after, outputs=range(2, REAL), eos=EOS, **rules)


def most_probable_tokens(log_probs_after, allowed):
    """The reference of greedy decoding, in float64."""
    hypothesis, total = (), 0.0
    while not hypothesis or hypothesis[-1] != EOS:
        log_probs = log_probs_after(hypothesis)
        token = max(allowed(hypothesis), key=lambda token: log_probs[token])
        hypothesis, total = (*hypothesis, token), total + log_probs[token]
    return hypothesis, total


@pytest.mark.parametrize("case", RULES)
@pytest.mark.parametrize("seed", range(3))
def test_all_rules_together_equal_a_reference_in_float64(decode, seed, case):
    model, sentences, arguments = random_case(seed, decode.width, case)
    rows, log_probs = decode(model.step, LIMITS, **arguments)
    for row, sentence in enumerate(sentences):
        log_probs_after = model.log_probs_after(sentence, BOS)
        if decode.name == "beam":
            ((tokens, total), *_) = numpy_beam_search(
                log_probs_after, beam_size=3, alpha=0.0, limit=LIMITS[row],
                special_tokens=TOKENS, allowed_after=may_follow(row, case),
            )  # fmt: skip
        else:
            tokens, total = most_probable_tokens(log_probs_after, may_follow(row, case))
        assert rows[row] == tokens
        np.testing.assert_allclose(log_probs[row], total, atol=1e-4)


def ensemble_step(*steps):
    """The step of an ensemble whose members' states are a tuple."""

    def step(tokens, index, states):
        logits, states = zip(
            *(member(tokens, index, state) for member, state in zip(steps, states, strict=True)),
            strict=True,
        )
        return average_probabilities(logits), states

    return step


def test_an_ensemble_takes_the_mean_of_probabilities(decode):
    # The mean of the logarithms would favor A: 0.5 * 0.3 * 0.1 > 0.01 * 0.65 * 0.9.
    ending = {token: {EOS: 1.0} for token in (A, B, C)}
    first = chain_step({BOS: {A: 0.5, B: 0.49, C: 0.01}, **ending})
    second = chain_step({BOS: {A: 0.3, B: 0.05, C: 0.65}, **ending, C: {EOS: 0.7, D: 0.3}})
    third = chain_step({BOS: {A: 0.1, C: 0.9}, **ending})
    step = ensemble_step(first, second, third)
    rows, log_probs = decode(step, limits=[3], state=((), (), ()))
    assert rows == [(C, EOS)]
    expected = (0.01 + 0.65 + 0.9) / 3 * (1.0 + 0.7 + 1.0) / 3
    np.testing.assert_allclose(log_probs, [np.log(expected)], rtol=1e-5)


def test_an_ensemble_moves_every_members_state_with_its_hypothesis():
    models = HistoryModel(0), HistoryModel(1)
    sentences = np.random.default_rng(0).normal(size=(3, 8))
    step = ensemble_step(*(model.step for model in models))
    states = tuple(model.start(sentences, 3) for model in models)
    ids, scores = run(beam_search, step, states, beam_size=3, alpha=0.6, limits=[8] * 3)
    for row, sentence in enumerate(sentences):
        members = [model.log_probs_after(sentence, BOS) for model in models]
        expected = numpy_beam_search(
            lambda prefix, members=members: np.logaddexp(*(m(prefix) for m in members)) - np.log(2),
            beam_size=3, alpha=0.6, limit=8, special_tokens=TOKENS,
        )  # fmt: skip
        assert [without_padding(i) for i in ids[row]] == [tokens for tokens, _ in expected]
        np.testing.assert_allclose(scores[row], [score for _, score in expected], atol=1e-5)

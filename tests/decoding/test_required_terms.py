"""Searches for outputs with terms, against the enumeration of all outputs."""

import itertools

import numpy as np
import pytest

from keras_transformer.decoding import RequiredTerms, beam_search
from keras_transformer.text.term_forms import array_of_terms
from keras_transformer.types import SpecialTokens, TermForm
from tests.decoding.fake_models import EOS, A, B, C, D, HistoryModel, run
from tests.decoding.numpy_beam_search import without_padding
from tests.decoding.python_terms import (
    ENDS,
    IS_GAP,
    JOINS,
    Reader,
    contains,
    meets,
)

TOKENS = SpecialTokens()
BOS = TOKENS.bos
NO_FLAGS = np.zeros(7, "int32")
# A ends a word, and B joins one: "A B" is one word.
FLAGS = np.array([0, 0, 0, ENDS, ENDS | JOINS, ENDS, IS_GAP], "int32")
CASES = {
    "one token": ([TermForm(0, 1, False, (A,))], NO_FLAGS),
    "twice": ([TermForm(0, 2, False, (A,))], NO_FLAGS),
    "two tokens": ([TermForm(0, 1, False, (B, A))], NO_FLAGS),
    "a repeated token": ([TermForm(0, 1, False, (A, A, B))], NO_FLAGS),
    "two forms": ([TermForm(0, 1, False, (A, A)), TermForm(0, 1, False, (C,))], NO_FLAGS),
    "two terms": ([TermForm(0, 1, False, (A,)), TermForm(1, 1, False, (B, C))], NO_FLAGS),
    "one begins another": ([TermForm(0, 1, False, (A,)), TermForm(1, 1, False, (A, B))], NO_FLAGS),
    "one is in another": (
        [TermForm(0, 1, False, (B,)), TermForm(1, 1, False, (A, B, C))],
        NO_FLAGS,
    ),
    "one ends as another begins": (
        [TermForm(0, 1, False, (A, B)), TermForm(1, 1, False, (B, A))],
        NO_FLAGS,
    ),
    "a shared form": (
        [TermForm(0, 1, False, (A,)), TermForm(1, 1, False, (A,)), TermForm(1, 1, False, (B,))],
        NO_FLAGS,
    ),
    "a whole word": ([TermForm(0, 1, False, (A,))], FLAGS),
    "a form after a gap": ([TermForm(0, 1, False, (A,)), TermForm(0, 1, False, (B,))], FLAGS),
    "reserved": ([TermForm(0, 1, True, (A,))], FLAGS),
    "reserved, twice": ([TermForm(0, 1, True, (A,)), TermForm(1, 1, True, (C,))], FLAGS),
}


def all_outputs(limit):
    letters = (A, B, C, D)
    for length in range(limit + 1):
        yield from ((*prefix, EOS) for prefix in itertools.product(letters, repeat=length))


def may_be(output, forms, flags):
    """Whether an output is one of a search with these terms."""
    reserved = {token for form in forms if form.is_reserved for token in form.tokens}
    once = all(output.count(token) <= 1 for token in reserved)
    return once and meets(output, forms, flags, BOS)


QUICK = {("one begins another", "any"), ("a form after a gap", "marian"), ("reserved", "first")}


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        pytest.param(*each, marks=[] if each in QUICK else pytest.mark.slow)
        for each in itertools.product(CASES, ["any", "transformers", "first", "marian"])
    ],
)
def test_equals_the_enumeration_of_all_outputs_when_the_beam_holds_them_all(case, ending):
    forms, flags = CASES[case]
    limit, alpha = 4, 0.6
    model = HistoryModel(seed=len(case), vocabulary_size=7)
    sentence = np.random.default_rng(1).normal(size=(1, 8))
    log_probs_after = model.log_probs_after(sentence[0], BOS)
    outputs = {}
    for tokens in all_outputs(limit):
        if may_be(tokens, forms, flags):
            last = len(tokens) - (ending != "any" and len(tokens) > limit)
            total = sum(log_probs_after(tokens[:i])[tokens[i]] for i in range(last))
            length = min(len(tokens), limit) if ending == "marian" else len(tokens)
            outputs[tokens] = total / ((5 + length) / 6) ** alpha
    best_first = sorted(outputs, key=outputs.get, reverse=True)
    assert best_first
    assert all(contains(tokens, forms, flags) for tokens in outputs)

    beam_size = 400
    ids, scores = run(
        beam_search,
        model.step,
        model.start(sentence, beam_size),
        limits=[limit],
        beam_size=beam_size,
        alpha=alpha,
        ending=ending,
        terms=RequiredTerms(array_of_terms([forms]), flags, EOS),
    )
    found = [without_padding(row) for row in ids[0][: len(best_first)]]
    if ending == "first":  # ends when the pool is full, which is never
        assert sorted(found) == sorted(best_first)
    else:
        assert found == best_first
    np.testing.assert_allclose(
        scores[0, : len(best_first)], [outputs[tokens] for tokens in found], atol=1e-5
    )
    assert np.all(np.isneginf(scores[0, len(best_first) :]))


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]
)
def test_terms_are_always_met(seed):
    generator = np.random.default_rng(seed)
    size = 9
    flags = generator.integers(0, 4, size).astype("int32")
    flags[EOS] = 0
    flags[size - 1] = IS_GAP
    model = HistoryModel(seed, vocabulary_size=size, sharpness=3.0)
    sentences, limits = [], []
    for _ in range(6):
        forms = []
        for term in range(generator.integers(0, 5)):
            count = int(generator.integers(1, 3))
            for _ in range(generator.integers(1, 3)):
                tokens = generator.integers(3, size - 1, generator.integers(1, 4))
                forms.append(TermForm(term, count, False, tuple(map(int, tokens))))
        sentences.append(forms)
        reader = Reader(forms, flags, BOS)
        total = sum(n * reader.shortest(term) for term, n in reader.left.items())
        limits.append(total + int(generator.integers(0, 6)))
    beam_size = int(generator.integers(1, 5))
    options = {
        "beam_size": beam_size,
        "alpha": 0.6,
        "ending": str(generator.choice(["any", "transformers", "first", "marian"])),
        "num_hypotheses": beam_size + int(generator.integers(0, 5)),
    }
    ids, scores = run(
        beam_search,
        model.step,
        model.start(generator.normal(size=(6, 8)), options["num_hypotheses"]),
        limits=limits,
        terms=RequiredTerms(array_of_terms(sentences), flags, EOS),
        **options,
    )
    for forms, rows, own in zip(sentences, ids, scores, strict=True):
        outputs = [
            without_padding(row) for row, score in zip(rows, own, strict=True) if score > -np.inf
        ]
        assert outputs
        for output in outputs:
            assert meets(output, forms, flags, BOS)
            assert contains(output, forms, flags)

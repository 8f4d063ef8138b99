"""Searches among candidates: the same as whole searches whose other logits are -inf."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding.sequence_generator import SequenceGenerator
from keras_transformer.models import build_language_model
from keras_transformer.search_options import SearchOptions
from tests.decoding.test_sequence_generator import SOURCE_IDS, TOKENS, VOCABULARY_SIZE, build

SIZES = {"num_encoder_layers": 1, "num_decoder_layers": 1}
TENSOR = ops.convert_to_tensor(SOURCE_IDS)  # a search of tensors is not compiled


def candidates(seed=0, extra=()):
    """EOS, `extra` tokens of each row, and random others: (3, columns), with empty columns."""
    generator = np.random.default_rng(seed)
    is_candidate = generator.random((len(SOURCE_IDS), VOCABULARY_SIZE)) < 0.5
    is_candidate[:, [TOKENS.pad, TOKENS.bos]] = False
    is_candidate[:, TOKENS.eos] = True
    for row, tokens in enumerate(extra):
        is_candidate[row, tokens] = True
    tokens = np.flatnonzero(is_candidate.any(axis=0))
    ids = np.where(is_candidate[:, tokens], tokens, -1)
    return np.pad(ids, ((0, 0), (0, 3)), constant_values=-1), is_candidate


class Masked:
    """A model all of whose logits are computed; those of no candidates are -inf."""

    def __init__(self, model, is_candidate):
        self.model = model
        self.is_candidate = is_candidate

    def __getattr__(self, name):
        return getattr(self.model, name)

    def start(self, *arguments, **options):
        state, cache = self.model.start(*arguments, **options)
        return (state, ops.convert_to_tensor(self.is_candidate)), cache

    def step(self, tokens, index, state, cache, weights=None, none=None):
        assert none is None
        state, is_candidate = state
        logits, cache = self.model.step(tokens, index, state, cache, weights)
        return ops.where(ops.expand_dims(is_candidate, 1), logits, -float("inf")), cache


@pytest.fixture(scope="module")
def models():
    return [build(1, use_logits_bias=True, **SIZES), build(2, tie_weights=False, **SIZES)]


def assert_equal(found, expected):
    ids, scores = (ops.convert_to_numpy(tensor) for tensor in found)
    expected_ids, expected_scores = (ops.convert_to_numpy(tensor) for tensor in expected)
    np.testing.assert_array_equal(ids, expected_ids)
    np.testing.assert_allclose(scores, expected_scores, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("members", "options"),
    [
        ([0], {"beam_size": 1}),
        ([1], {"beam_size": 3, "no_repeat_ngram": 1, "min_length": 2}),
        ([0, 1], {"beam_size": 3, "ending": "transformers", "length_penalty": "power"}),
        ([0], {"beam_size": 2, "ending": "first", "renormalize": True}),
    ],
)
def test_searches_are_those_with_the_other_logits_masked(models, members, options):
    options = SearchOptions(extra_length=3, **options)
    ids, is_candidate = candidates(seed=len(members))
    own = [models[i] for i in members]
    whole = SequenceGenerator([Masked(model, is_candidate) for model in own])
    found = SequenceGenerator(own).search(SOURCE_IDS, candidate_ids=ids, options=options)
    assert_equal(found, whole.search(TENSOR, options=options))
    rows = zip(ops.convert_to_numpy(found[0]), is_candidate, strict=True)
    assert all(row[np.unique(found[found > 0])].all() for found, row in rows)


def test_prefixes_and_constraints_go_with_candidates(models):
    prefix_ids = np.array([[7, 8], [9, TOKENS.pad], [TOKENS.pad, TOKENS.pad]])
    ids, is_candidate = candidates(extra=[[7, 8], [9], []])
    options = SearchOptions(beam_size=3, extra_length=3)

    def no_elevens(limits):
        return lambda ids, index: ops.reshape(ops.arange(VOCABULARY_SIZE) != 11, (1, 1, -1))

    def nothing(limits):  # which every token breaks: it yields
        return lambda ids, index: ops.zeros((1, 1, 1), dtype="bool")

    for constraints in ((), (no_elevens, nothing)):
        keywords = {"options": options, "constraints": constraints}
        found = SequenceGenerator(models[0]).search(SOURCE_IDS, prefix_ids, ids, **keywords)
        whole = SequenceGenerator(Masked(models[0], is_candidate))
        assert_equal(found, whole.search(TENSOR, prefix_ids, **keywords))
        outputs = ops.convert_to_numpy(found[0])
        assert (outputs[0, :, :2] == [7, 8]).all()
        assert (outputs[1, :, 0] == 9).all()
        assert 11 not in outputs or not constraints


def test_searches_of_alphas_go_with_candidates(models):
    ids, is_candidate = candidates()
    for beam_size, ending in ((1, "any"), (2, "any")):
        options = SearchOptions(beam_size=beam_size, extra_length=3, ending=ending)
        found = SequenceGenerator(models[0]).search_alphas(
            SOURCE_IDS, [0.0, 1.0], ids, options=options
        )
        whole = SequenceGenerator(Masked(models[0], is_candidate))
        assert_equal(found, whole.search_alphas(TENSOR, [0.0, 1.0], options=options))


def test_all_tokens_as_candidates_are_the_whole_search(models):
    tokens = np.arange(VOCABULARY_SIZE)
    ids = np.broadcast_to(tokens[tokens > TOKENS.bos], (3, VOCABULARY_SIZE - 2))
    options = SearchOptions(beam_size=3, extra_length=3, renormalize=True)
    generator = SequenceGenerator(models[0])
    found = generator.search(SOURCE_IDS, candidate_ids=ids, options=options)
    assert_equal(found, generator.search(TENSOR, options=options))
    found = generator.search(SOURCE_IDS[:0], candidate_ids=ids[:0], options=options)
    assert tuple(found[0].shape)[:2] == tuple(found[1].shape) == (0, 3)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[2], [2], [2]], "at least two columns"),
        ([[2, 5], [2, 6], [2, 5]], "in each column"),
        ([[5, 2], [5, 2], [5, 2]], "in ascending order"),
        ([[2, 99]] * 3, "less than 12"),
        ([[2, 5], [-1, 5], [2, 5]], "must have the end of sentence, 2, in each row"),
    ],
)
def test_candidates_that_are_none(models, ids, message):
    with pytest.raises(ValueError, match=f"`candidate_ids` .*{message}") as caught:
        SequenceGenerator(models[0]).search(SOURCE_IDS, candidate_ids=ids)
    assert "\n" not in str(caught.value)


def test_language_models_and_quantized_models_have_none(models):
    language_model = build_language_model("tiny", vocabulary_size=VOCABULARY_SIZE)
    with pytest.raises(ValueError, match="`candidate_ids` must be None for a language model"):
        SequenceGenerator(language_model).search([[5, 6]], candidate_ids=[[2, 5]])
    if keras.backend.backend() == "torch":
        return
    quantized = build(3, **SIZES)
    quantized.quantize("int8")
    with pytest.raises(ValueError, match="weights that are not quantized"):
        SequenceGenerator(quantized).search(SOURCE_IDS, candidate_ids=candidates()[0])

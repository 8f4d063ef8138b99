"""Stepwise generation against whole passes of the same model."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.models import build_transformer
from keras_transformer.sequence_generation import SequenceGenerator
from keras_transformer.special_tokens import SpecialTokens
from tests.decoding.numpy_beam_search import numpy_beam_search

TOKENS = SpecialTokens()
VOCABULARY_SIZE = 12
SOURCE_IDS = np.array(
    [
        [4, 5, 6, 7, TOKENS.eos],
        [8, 9, TOKENS.eos, TOKENS.pad, TOKENS.pad],
        [11, TOKENS.eos, TOKENS.pad, TOKENS.pad, TOKENS.pad],
    ]
)


def build(**overrides):
    """A model small enough for whole passes per token, with an opinion on what comes next."""
    sizes = {"num_encoder_layers": 2, "num_decoder_layers": 2, "hidden_dim": 16}
    sizes |= {"intermediate_dim": 32, "num_heads": 2, "vocabulary_size": VOCABULARY_SIZE}
    model = build_transformer("tiny", **sizes, **overrides)
    generator = np.random.default_rng(0)
    model.set_weights([w + generator.normal(0, 0.4, w.shape) for w in model.get_weights()])
    return model


@pytest.fixture(scope="module")
def model():
    return build()


def log_probs(model, source_row, prefix):
    """Log-probabilities after BOS and a prefix, in float64, from one whole pass."""
    target_ids = np.full((1, 9), TOKENS.pad)  # one shape for every prefix: JAX compiles for each
    target_ids[0, : len(prefix) + 1] = (TOKENS.bos, *prefix)
    inputs = {"source_ids": source_row[None], "target_ids": target_ids}
    logits = ops.convert_to_numpy(model(inputs))[0, len(prefix)].astype("float64")
    return logits - np.log(np.sum(np.exp(logits)))


def without_padding(ids):
    return tuple(int(i) for i in ids if i != TOKENS.pad)


def to_numpy(tensors):
    return keras.tree.map_structure(ops.convert_to_numpy, tensors)


def test_greedy_takes_the_argmax_of_whole_passes(model):
    ids, scores = to_numpy(SequenceGenerator(model).greedy(SOURCE_IDS, extra_length=3))
    for source_row, row, score, limit in zip(SOURCE_IDS, ids, scores, [7, 5, 4], strict=True):
        expected, total = (), 0.0
        while not expected or expected[-1] != TOKENS.eos:
            values = log_probs(model, source_row, expected)
            values_of_output = np.where(np.isin(range(12), [TOKENS.pad, TOKENS.bos]), -99, values)
            token = int(np.argmax(values_of_output)) if len(expected) < limit else TOKENS.eos
            expected, total = (*expected, token), total + values[token]
        assert without_padding(row) == expected
        np.testing.assert_allclose(score, total, atol=1e-4)


@pytest.mark.parametrize("overrides", [{}, {"normalize_first": True, "positions": "learned"}])
def test_beam_search_equals_the_reference_on_whole_passes(overrides):
    model = build(**overrides)
    ids, scores = to_numpy(
        SequenceGenerator(model).beam_search(SOURCE_IDS, beam_size=3, alpha=0.6, extra_length=2)
    )
    for row, limit in enumerate([6, 4, 3]):
        expected = numpy_beam_search(
            lambda prefix, row=row: log_probs(model, SOURCE_IDS[row], prefix),
            beam_size=3,
            alpha=0.6,
            limit=limit,
            special_tokens=TOKENS,
        )
        assert [without_padding(i) for i in ids[row]] == [tokens for tokens, _ in expected]
        np.testing.assert_allclose(scores[row], [score for _, score in expected], atol=1e-4)


def test_score_is_the_sum_of_log_softmax(model):
    target_ids = np.array([[1, 4, 5, 6], [1, 7, 0, 0], [1, 0, 0, 0]])
    labels = np.array([[4, 5, 6, 2], [7, 2, 0, 0], [2, 0, 0, 0]])
    scores = to_numpy(SequenceGenerator(model).score(SOURCE_IDS, target_ids, labels))
    for row, expected_tokens in enumerate([(4, 5, 6, 2), (7, 2), (2,)]):
        expected = sum(
            log_probs(model, SOURCE_IDS[row], expected_tokens[:i])[token]
            for i, token in enumerate(expected_tokens)
        )
        np.testing.assert_allclose(scores[row], expected, atol=1e-4)


def test_a_row_of_padding_fills_up_a_batch(model):
    generator = SequenceGenerator(model)
    filled = np.concatenate([SOURCE_IDS, np.zeros_like(SOURCE_IDS)])
    ids, scores = to_numpy(generator.beam_search(filled, extra_length=3))
    alone_ids, alone_scores = to_numpy(generator.beam_search(SOURCE_IDS, extra_length=3))
    assert ids[:3].tolist() == alone_ids.tolist()
    np.testing.assert_allclose(scores[:3], alone_scores, atol=1e-5)
    assert [without_padding(row) for row in ids[3:, 0]] == [(TOKENS.eos,)] * 3


def test_padding_behind_the_source_changes_nothing(model):
    generator = SequenceGenerator(model)
    wide = np.pad(SOURCE_IDS, ((0, 0), (0, 4)))
    ids, scores = to_numpy(generator.beam_search(SOURCE_IDS, extra_length=3))
    wide_ids, wide_scores = to_numpy(generator.beam_search(wide, extra_length=3))
    assert wide_ids[..., : ids.shape[2]].tolist() == ids.tolist()
    np.testing.assert_allclose(wide_scores, scores, atol=1e-5)


def test_outputs_end_where_learned_positions_do():
    model = build(positions="learned", max_length=6)
    # So strong a penalty favors the longest output: five tokens behind BOS, and EOS.
    ids, _ = to_numpy(SequenceGenerator(model).beam_search(SOURCE_IDS, alpha=9.0))
    assert [len(without_padding(row)) for row in ids[:, 0]] == [6, 6, 6]


def test_mixed_bfloat16_stays_close_to_float32(model):
    low = build(dtype="mixed_bfloat16")
    low.set_weights(model.get_weights())
    _, low_scores = to_numpy(SequenceGenerator(low).beam_search(SOURCE_IDS, extra_length=3))
    _, scores = to_numpy(SequenceGenerator(model).beam_search(SOURCE_IDS, extra_length=3))
    assert low_scores.dtype == np.float32
    np.testing.assert_allclose(low_scores, scores, atol=0.3)


def test_refuses_another_padding_id(model):
    with pytest.raises(ValueError, match="`special_tokens.pad` must be the model's padding id"):
        SequenceGenerator(model, SpecialTokens(pad=3, unk=0))

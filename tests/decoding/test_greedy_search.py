import math

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import greedy_search
from keras_transformer.special_tokens import SpecialTokens
from tests.decoding.fake_models import EOS, A, B, C, HistoryModel, chain_step

TOKENS = SpecialTokens()
BOS = TOKENS.bos


def search(step, state=(), *, limits=(5,), max_length=None, tokens=TOKENS):
    """Run the search; return ids and log-probabilities as NumPy arrays."""
    ids, log_probs = greedy_search(
        step,
        state,
        batch_size=len(limits),
        limits=list(limits),
        special_tokens=tokens,
        max_length=max(limits) if max_length is None else max_length,
    )
    return ops.convert_to_numpy(ids), ops.convert_to_numpy(log_probs)


def test_takes_the_most_probable_token_at_each_position():
    step = chain_step({BOS: {A: 0.6, B: 0.4}, A: {C: 0.5, EOS: 0.3}, B: {EOS: 0.9}, C: {EOS: 0.6}})
    ids, log_probs = search(step)
    assert ids.tolist() == [[A, C, EOS, 0, 0, 0]]
    np.testing.assert_allclose(log_probs, [math.log(0.6 * 0.5 * 0.6)], rtol=1e-5)


def test_each_sentence_has_its_own_limit_and_pays_nothing_after_eos():
    step = chain_step({token: {A: 0.75, EOS: 0.25} for token in (BOS, A)})
    ids, log_probs = search(step, limits=[0, 1, 3], max_length=4)
    assert ids.tolist() == [[EOS, 0, 0, 0, 0], [A, EOS, 0, 0, 0], [A, A, A, EOS, 0]]
    np.testing.assert_allclose(log_probs, np.log([0.25, 0.75 * 0.25, 0.75**3 * 0.25]), rtol=1e-5)


def test_padding_and_bos_are_never_produced_and_keep_their_probability():
    step = chain_step({BOS: {TOKENS.pad: 0.5, BOS: 0.3, A: 0.2}, A: {TOKENS.pad: 0.6, EOS: 0.4}})
    ids, log_probs = search(step)
    assert ids[0, :2].tolist() == [A, EOS]
    np.testing.assert_allclose(log_probs, [math.log(0.2 * 0.4)], rtol=1e-5)


def test_special_ids_come_from_the_record():
    step = chain_step({4: {2: 0.7, 0: 0.3}, 2: {0: 0.9, 2: 0.1}}, padding_id=5)
    ids, log_probs = search(step, limits=[3], tokens=SpecialTokens(pad=5, bos=4, eos=0, unk=1))
    assert ids.tolist() == [[2, 0, 5, 5]]
    np.testing.assert_allclose(log_probs, [math.log(0.63)], rtol=1e-5)


@pytest.mark.parametrize("seed", range(6))
def test_equals_an_argmax_over_the_whole_history_in_float64(seed):
    model, sentences = HistoryModel(seed), np.random.default_rng(seed).normal(size=(3, 8))
    ids, log_probs = search(model.step, model.start(sentences, 1), limits=[7, 7, 7])
    for row, sentence in enumerate(sentences):
        log_probs_after, prefix, total = model.log_probs_after(sentence, BOS), (), 0.0
        while not prefix or prefix[-1] != EOS:
            values = log_probs_after(prefix)
            token = 2 + int(np.argmax(values[2:])) if len(prefix) < 7 else EOS
            prefix, total = (*prefix, token), total + values[token]
        assert tuple(int(i) for i in ids[row] if i) == prefix
        np.testing.assert_allclose(log_probs[row], total, atol=1e-5)

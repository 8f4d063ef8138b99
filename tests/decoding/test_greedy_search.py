"""What greedy search has besides the rules of every mode, which are in test_all_modes.py."""

import math

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import greedy_search
from keras_transformer.types import SpecialTokens
from tests.decoding.fake_models import EOS, HistoryModel, chain_step

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

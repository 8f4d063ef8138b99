"""KerasHub's samplers drive a language model: a function of tokens and an index is all they ask."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.models import build_language_model

PROMPTS = [[4, 5, 6], [7, 8, 9]]


@pytest.fixture(scope="module")
def samplers():
    return pytest.importorskip(
        "keras_hub.samplers",
        reason="keras-hub is not installed for this Keras: pip install keras-hub",
        exc_type=ImportError,
    )


@pytest.mark.parametrize("name", ["GreedySampler", "BeamSampler"])
def test_a_sampler_finds_what_generate_finds(samplers, name):
    model = build_language_model("tiny", vocabulary_size=12, num_decoder_layers=1)
    generator = np.random.default_rng(3)
    model.set_weights([w + generator.normal(0, 0.3, w.shape) for w in model.get_weights()])

    def next_logits(ids, cache, index):
        logits = model({"token_ids": ids})
        row = ops.take(logits, ops.broadcast_to(index - 1, (1,)), axis=1)[:, 0]
        # The ids of padding, BOS and EOS are never produced here, so that all outputs are as long.
        return ops.where(ops.arange(12) < 3, -1e9, row), None, cache

    prompts = np.pad(PROMPTS, ((0, 0), (1, 4)), constant_values=((0, 0), (1, 0)))  # BOS, room
    options = {} if name == "GreedySampler" else {"num_beams": 1}
    sampler = getattr(samplers, name)(**options)
    found = sampler(next_logits, prompts.astype("int32"), index=4, model=model)
    ids, _ = model.generate(PROMPTS, beam_size=1, extra_length=4, min_length=7)
    assert (
        ops.convert_to_numpy(found)[:, 1:].tolist() == ops.convert_to_numpy(ids)[:, 0, :7].tolist()
    )

import numpy as np
import pytest
from keras import ops

from keras_transformer.models import TransformerEnsemble
from tests.decoding.test_sequence_generator import build

SOURCE_IDS = np.array([[5, 6, 7, 2], [8, 2, 0, 0]], "int32")
TARGET_IDS = np.array([[1, 9, 5], [1, 6, 6]], "int32")


def ensemble_of(*models):
    return TransformerEnsemble(models)


def softmax(logits):
    powers = np.exp(ops.convert_to_numpy(logits).astype("float64"))
    return powers / powers.sum(axis=-1, keepdims=True)


def test_probabilities_are_the_mean_of_the_members():
    # Members may differ in their sizes.
    models = build(0), build(1, num_decoder_layers=1, hidden_dim=8), build(2)
    inputs = {"source_ids": SOURCE_IDS, "target_ids": TARGET_IDS}
    expected = np.mean([softmax(model(inputs)) for model in models], axis=0)
    ensemble = ensemble_of(*models)
    log_probs = ensemble.logits(SOURCE_IDS, TARGET_IDS)
    np.testing.assert_allclose(ops.exp(log_probs), expected, atol=1e-5)

    memory_state, cache = ensemble.start(SOURCE_IDS, beam_size=1, length=3)
    for index in range(3):
        tokens = ops.convert_to_tensor(TARGET_IDS[:, index : index + 1])
        log_probs, cache = ensemble.step(tokens, index, memory_state, cache)
        np.testing.assert_allclose(ops.exp(log_probs)[:, 0], expected[:, index], atol=1e-5)


def test_attention_is_the_mean_of_the_members():
    models = build(0), build(1, num_decoder_layers=1)
    expected = [model.cross_attention(SOURCE_IDS, TARGET_IDS) for model in models]
    ensemble = ensemble_of(*models)
    actual = ensemble.cross_attention(SOURCE_IDS, TARGET_IDS)
    np.testing.assert_allclose(actual, np.mean(expected, axis=0), atol=1e-6)


def test_has_the_members_sizes():
    ensemble = ensemble_of(
        build(0, source_vocabulary_size=9, positions="learned", max_length=16),
        build(1, source_vocabulary_size=9, positions="learned", max_length=8),
        build(2, source_vocabulary_size=9),
    )
    assert (ensemble.vocabulary_size, ensemble.source_vocabulary_size) == (12, 9)
    assert (ensemble.padding_id, ensemble.max_length) == (0, 8)
    assert ensemble_of(build(0)).max_length is None


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"vocabulary_size": 13}, r"the same `vocabulary_size`. Received: \[12, 13\]"),
        ({"source_vocabulary_size": 9}, r"the same `source_vocabulary_size`. Received: \[12, 9\]"),
        ({"padding_id": 3}, r"the same `padding_id`. Received: \[0, 3\]"),
    ],
)
def test_refuses_members_that_do_not_fit(overrides, message):
    with pytest.raises(ValueError, match=message):
        ensemble_of(build(0), build(0, **overrides))


def test_refuses_to_be_empty():
    with pytest.raises(ValueError, match="`members` must contain at least one model"):
        TransformerEnsemble([])

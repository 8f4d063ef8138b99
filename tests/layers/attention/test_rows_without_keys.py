"""A position that sees no key attends to nothing: zeros, zero weights, a finite gradient."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.multi_head_attention import FUSED_LENGTH
from keras_transformer.models import build_transformer
from keras_transformer.types import SpecialTokens
from tests.layers.gradients import outputs_and_gradients
from tests.layers.numpy_layers import kernels_of, multi_head_attention, random

pytestmark = pytest.mark.core

HEADS, DIM, HIDDEN = 2, 4, 8


def half_masked(batch, *rest):
    """A mask that hides every key of the second row, and a third of the others."""
    mask = np.random.default_rng(2).random((batch, *rest)) < 0.67
    mask[0, ..., 0] = True
    mask[1] = False
    return mask


def by_numpy(layer, x, value, allowed):
    """In float64, with zeros where nothing is `allowed`."""
    kernels, outputs, weights = kernels_of(layer), [], []
    for row, source, mask in zip(x, value, allowed, strict=True):
        seen = mask.any(axis=1)
        output, weight = multi_head_attention(
            row.astype("float64"), source, kernels, HEADS, mask | ~seen[:, None]
        )
        outputs.append(output * seen[:, None])
        weights.append(weight * seen[:, None])
    return np.stack(outputs), np.stack(weights)


def band(length, window, is_causal):
    distance = np.arange(length) - np.arange(length)[:, None]
    after = 0 if is_causal else window // 2
    return (distance <= after) & (distance >= after + 1 - window)


CASES = {
    # name: (length, the mask's further axes, options of the layer, of the call)
    "padding": (6, (6,), {}, {}),
    "causal": (6, (6,), {}, {"use_causal_mask": True}),
    "pairs": (6, (6, 6), {}, {}),
    "one of each": (6, (1, 6), {}, {}),
    "one key": (1, (1,), {}, {}),
    "fused": (FUSED_LENGTH, (FUSED_LENGTH,), {}, {}),
    "fused causal": (FUSED_LENGTH, (FUSED_LENGTH,), {}, {"use_causal_mask": True}),
    "window": (6, (6,), {"attention_window": 3}, {}),
    "blocks": (300, (300,), {"attention_window": 5}, {}),
    "causal blocks": (300, (300,), {"attention_window": 5}, {"use_causal_mask": True}),
}


@pytest.mark.parametrize("case", CASES)
def test_self_attention(case):
    length, axes, options, call = CASES[case]
    layer = MultiHeadAttention(HEADS, DIM, **options)
    x, mask = random(2, length, HIDDEN), half_masked(2, *axes)
    allowed = np.broadcast_to(mask[:, None] if mask.ndim == 2 else mask, (2, length, length))
    window = options.get("attention_window", 2 * length + 1)
    allowed = allowed & band(length, window, bool(call))
    layer.build(x.shape)
    expected, expected_scores = by_numpy(layer, x, x, allowed)
    call = {"attention_mask": mask, **call}
    output, of_inputs, of_weights = outputs_and_gradients(layer, [x], np.ones_like(x), **call)
    np.testing.assert_allclose(output, expected, atol=1e-5)
    assert not output[1].any()
    assert not of_inputs[0][1].any()
    assert of_inputs[0][0].any()
    assert all(np.isfinite(each).all() for each in of_weights.values())
    output, scores = layer(x, return_attention_scores=True, **call)
    np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-5)
    np.testing.assert_allclose(ops.convert_to_numpy(scores), expected_scores, atol=1e-6)


@pytest.mark.parametrize("length", [6, FUSED_LENGTH])
def test_attention_to_a_memory_at_once_and_step_by_step(length):
    layer = MultiHeadAttention(HEADS, DIM)
    x, memory = random(2, length, HIDDEN), random(2, length, HIDDEN, seed=1)
    mask = half_masked(2, length)
    output = ops.convert_to_numpy(layer(x, memory, value_mask=mask))
    allowed = np.broadcast_to(mask[:, None], (2, length, length))
    np.testing.assert_allclose(output, by_numpy(layer, x, memory, allowed)[0], atol=1e-5)
    assert not output[1].any()
    steps = layer.attend_memory(x, layer.project_memory(memory), mask)
    np.testing.assert_allclose(ops.convert_to_numpy(steps), output, atol=1e-5)


def test_in_half_precision():
    layer = MultiHeadAttention(HEADS, DIM, dtype="mixed_float16")
    mask = half_masked(2, 6)
    output, scores = layer(random(2, 6, HIDDEN), attention_mask=mask, return_attention_scores=True)
    assert keras.backend.standardize_dtype(output.dtype) == "float16"
    assert not ops.convert_to_numpy(output)[1].any()
    assert not ops.convert_to_numpy(scores)[1].any()
    assert np.isfinite(ops.convert_to_numpy(output)).all()


def test_a_packed_pair_with_an_empty_source_reads_nothing_of_the_others():
    """Hidden EOS leaves its source without a key; what it sees must not be another pair's."""
    tokens = SpecialTokens()
    model = build_transformer("tiny", vocabulary_size=20, hidden_source_id=tokens.eos)
    packed = model.packed(tokens)
    targets = np.array([[1, 7, 8, 1, 9, 5, 6]])

    def logits(second):
        sources = np.array([[tokens.eos, *second, tokens.eos]])
        return ops.convert_to_numpy(packed({"source_ids": sources, "target_ids": targets}))

    first, other = logits([5, 6, 7]), logits([9, 4, 8])
    np.testing.assert_allclose(first[0, :3], other[0, :3], atol=1e-5)
    assert np.abs(first[0, 3:] - other[0, 3:]).max() > 1e-2
    alone = {"source_ids": np.array([[tokens.eos]]), "target_ids": targets[:, :3]}
    np.testing.assert_allclose(ops.convert_to_numpy(model(alone)), first[:, :3], atol=1e-5)

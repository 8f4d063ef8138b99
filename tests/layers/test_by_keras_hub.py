"""The layers against those of Keras and KerasHub with the same weights: outputs and gradients."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.multi_head_attention import frugal_softmax
from keras_transformer.layers.sublayers import layer_normalization
from tests.layers.gradients import outputs_and_gradients
from tests.layers.numpy_layers import random

BATCH, LENGTH, SOURCE_LENGTH, HIDDEN, MEMORY, HEADS, INNER = 3, 5, 7, 8, 6, 2, 12
IS_TOKEN = np.arange(LENGTH) < np.array([5, 2, 4])[:, None]
IS_SOURCE = np.arange(SOURCE_LENGTH) < np.array([3, 7, 5])[:, None]
CAUSAL = np.tril(np.ones((BATCH, LENGTH, LENGTH), bool))


@pytest.fixture(scope="module")
def hub():
    return pytest.importorskip(
        "keras_hub.layers",
        reason="keras-hub is not installed for this Keras: pip install keras-hub",
        exc_type=ImportError,
    )


def attention_pairs(ours, theirs, of):
    """Our weights with the arrays that stand for them: `of` gives the array of one of theirs."""
    parts = {
        name: getattr(theirs, f"_{name}_dense") for name in ("query", "key", "value", "output")
    }
    kernels = {name: of(part.kernel) for name, part in parts.items()}
    matrices = {
        name: kernel.reshape(-1, kernel.shape[-1])
        if name == "output"
        else kernel.reshape(kernel.shape[0], -1)
        for name, kernel in kernels.items()
    }
    vectors = {
        name: None if part.bias is None else of(part.bias).reshape(-1)
        for name, part in parts.items()
    }
    fused = [["query", "key", "value"], ["query"], ["key", "value"], ["key"], ["value"], ["output"]]
    for names in fused:
        projection = "_".join(names)
        if projection in ours.projections:
            yield (
                ours.projections[projection].kernel,
                np.concatenate([matrices[name] for name in names], axis=1),
            )
            if ours.use_bias:
                yield (
                    ours.projections[projection].bias,
                    np.concatenate([vectors[name] for name in names]),
                )


def layer_pairs(ours, theirs, of):
    """As `attention_pairs`, of an encoder or decoder layer and one of KerasHub."""
    attention = ours.attention if hasattr(ours, "attention") else ours.self_attention
    block = ours.attention_block if hasattr(ours, "attention") else ours.self_attention_block
    norms = [
        (block, theirs._self_attention_layer_norm),
        (ours.feed_forward_block, theirs._feedforward_layer_norm),
    ]
    yield from attention_pairs(attention, theirs._self_attention_layer, of)
    if getattr(ours, "cross_attention", None) is not None:
        yield from attention_pairs(ours.cross_attention, theirs._cross_attention_layer, of)
        norms.append((ours.cross_attention_block, theirs._cross_attention_layer_norm))
    for dense, other in (
        (ours.feed_forward.expand, theirs._feedforward_intermediate_dense),
        (ours.feed_forward.contract, theirs._feedforward_output_dense),
    ):
        yield from ((dense.kernel, of(other.kernel)), (dense.bias, of(other.bias)))
    for block, norm in norms:
        yield from ((block.norm.gamma, of(norm.gamma)), (block.norm.beta, of(norm.beta)))


def check_equal(pairs, ours, theirs, inputs, is_read, our_options, their_options):
    """Copy their random weights to ours; outputs and all gradients must be equal.

    `is_read` (batch, length) is False at padding, whose outputs nobody reads.
    """
    symbols = [keras.KerasTensor(array.shape) for array in inputs]
    for layer, options in ((ours, our_options), (theirs, their_options)):
        layer(*symbols, **options)
    for seed, weight in enumerate(theirs.weights):
        weight.assign(0.5 * random(*weight.shape, seed=seed + 5))
    copied = list(pairs(ours, theirs, lambda weight: np.array(weight)))
    assert len(copied) == len(ours.weights)
    for weight, array in copied:
        weight.assign(array)
    factors = random(BATCH, LENGTH, HIDDEN, seed=4) * is_read[..., None]
    outputs, of_inputs, of_weights = outputs_and_gradients(ours, inputs, factors, **our_options)
    expected, expected_of_inputs, expected_of_weights = outputs_and_gradients(
        theirs, inputs, factors, **their_options
    )
    assert_close(outputs[is_read], expected[is_read])
    for gradient, expected in zip(of_inputs, expected_of_inputs, strict=True):
        assert_close(gradient, expected)
    for weight, expected in pairs(ours, theirs, lambda weight: expected_of_weights[id(weight)]):
        assert_close(of_weights[id(weight)], expected)


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5 * max(1, np.abs(expected).max()))


class Normalization(keras.layers.LayerNormalization):
    def call(self, inputs):
        return layer_normalization(inputs, ops.copy(self.gamma), ops.copy(self.beta), self.epsilon)


class Softmax(keras.layers.Softmax):
    def call(self, inputs):
        return frugal_softmax(inputs)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (Normalization, keras.layers.LayerNormalization),
        (Softmax, keras.layers.Softmax),
    ],
)
def test_gradients_of_our_own_are_those_of_keras(ours, theirs):
    inputs = 3 * random(BATCH, LENGTH, HIDDEN).astype("float64") + 1
    factors = random(BATCH, LENGTH, HIDDEN, seed=1).astype("float64")
    found, expected = [], []
    for layer_class, results in ((ours, found), (theirs, expected)):
        layer = layer_class(dtype="float64")
        layer.build(inputs.shape)
        for seed, weight in enumerate(layer.weights):
            weight.assign(random(HIDDEN, seed=seed + 2))
        outputs, of_inputs, of_weights = outputs_and_gradients(layer, [inputs], factors)
        results += [outputs, *of_inputs, *of_weights.values()]
    precision = 1e-12 if keras.backend.backend() == "tensorflow" else 1e-5
    for result, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=0, atol=precision)


EVERYWHERE = np.ones((BATCH, LENGTH), bool)
SIZES = {"intermediate_dim": INNER, "num_heads": HEADS, "layer_norm_epsilon": 1e-5}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "masks", "their_masks", "is_read"),
    [
        ({}, {}, {}, EVERYWHERE),
        (
            {"normalize_first": True, "activation": "gelu"},
            {"mask": IS_TOKEN},
            {"padding_mask": IS_TOKEN},
            IS_TOKEN,
        ),
        (
            {"activation": "swish"},
            {"mask": IS_TOKEN, "use_causal_mask": True},
            {"padding_mask": IS_TOKEN, "attention_mask": CAUSAL},
            IS_TOKEN,
        ),
    ],
    ids=["post-norm", "pre-norm, padding", "causal"],
)
def test_encoder_layer_equals_keras_hub(hub, options, masks, their_masks, is_read):
    check_equal(
        layer_pairs,
        TransformerEncoderLayer(**SIZES, **options, use_bias=True),
        hub.TransformerEncoder(**SIZES, **options),
        [random(BATCH, LENGTH, HIDDEN)],
        is_read,
        masks,
        their_masks,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("has_memory", "normalize_first"), [(True, False), (True, True), (False, True)]
)
def test_decoder_layer_equals_keras_hub(hub, has_memory, normalize_first):
    options = {**SIZES, "normalize_first": normalize_first, "activation": "gelu"}
    inputs = [random(BATCH, LENGTH, HIDDEN)]
    masks, their_masks = {"mask": IS_TOKEN}, {"decoder_padding_mask": IS_TOKEN}
    if has_memory:
        inputs.append(random(BATCH, SOURCE_LENGTH, HIDDEN, seed=1))
        masks["memory_mask"] = their_masks["encoder_padding_mask"] = IS_SOURCE
    check_equal(
        layer_pairs,
        TransformerDecoderLayer(**options, use_bias=True),
        hub.TransformerDecoder(**options),
        inputs,
        IS_TOKEN,
        masks,
        their_masks,
    )


@pytest.mark.parametrize(
    ("others", "use_bias"),
    [(0, True), (1, False), (2, True)],
    ids=["self", "value", "value and key"],
)
def test_attention_equals_that_of_keras(others, use_bias):
    options = {"num_heads": HEADS, "key_dim": 3, "use_bias": use_bias}
    inputs = [random(BATCH, LENGTH, HIDDEN)]
    inputs += [random(BATCH, SOURCE_LENGTH, MEMORY, seed=seed) for seed in range(1, others + 1)]
    masks = {"attention_mask": IS_SOURCE[:, None].repeat(LENGTH, axis=1)}
    their_masks = masks
    if not others:
        masks = {"query_mask": IS_TOKEN, "use_causal_mask": True}
        their_masks = {"value_mask": IS_TOKEN, "use_causal_mask": True}
    elif others == 2:
        masks = {"query_mask": IS_TOKEN, "value_mask": IS_SOURCE, "key_mask": IS_SOURCE[::-1]}
        their_masks = masks
    check_equal(
        attention_pairs,
        MultiHeadAttention(**options),
        _SelfAttention(**options) if not others else keras.layers.MultiHeadAttention(**options),
        inputs,
        EVERYWHERE if others == 1 else IS_TOKEN,
        masks,
        their_masks,
    )


class _SelfAttention(keras.layers.MultiHeadAttention):
    """Keras's attention of a sequence to itself."""

    def build(self, query_shape):
        super().build(query_shape, query_shape)

    def call(self, query, value_mask=None, use_causal_mask=False):
        return super().call(query, query, value_mask=value_mask, use_causal_mask=use_causal_mask)

    def compute_output_spec(self, query, **options):
        return keras.KerasTensor(query.shape, self.compute_dtype)

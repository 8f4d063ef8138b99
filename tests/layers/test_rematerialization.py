"""`keras.RematScope`: every layer and a whole model compute again what they computed."""

import functools

import keras
import numpy as np
import pytest

from keras_transformer.layers import (
    SSRU,
    FeedForward,
    MultiHeadAttention,
    PositionalEmbedding,
    ResidualBlock,
    TokenEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.models import build_transformer
from tests.layers.gradients import outputs_and_gradients
from tests.layers.numpy_layers import random

MODES = ["full", "list_of_layers", "activations", "larger_than"]
NAMES = ["layer", "expand", "norm", "dropout", "token_embedding", "word_dropout"]
SIZES = {"intermediate_dim": 16, "num_heads": 2}
RATES = {"dropout": 0.3, "attention_dropout": 0.3, "activation_dropout": 0.3}
IDS = np.array([[1, 5, 3], [2, 4, 0]], "int32")
MASK = IDS != 0
X, MEMORY = random(2, 3, 8), random(2, 3, 8, seed=1)
LAYERS = {
    # name: (class, arguments, inputs, arguments of the call)
    "MultiHeadAttention": (
        MultiHeadAttention,
        {"num_heads": 2, "key_dim": 4, "dropout": 0.3, "qk_norm": True, "positions": "rotary"},
        [X],
        {"attention_mask": MASK, "use_causal_mask": True},
    ),
    "attention to a memory": (
        MultiHeadAttention,
        {"num_heads": 2, "key_dim": 4},
        [X, MEMORY],
        {"value_mask": MASK},
    ),
    "FeedForward": (FeedForward, {"intermediate_dim": 16, "dropout": 0.3}, [X], {}),
    "ResidualBlock": (ResidualBlock, {"dropout": 0.3, "scale": 1.5}, [X, MEMORY], {}),
    "SSRU": (SSRU, {}, [X], {"is_continued": MASK}),
    "TokenEmbedding": (
        TokenEmbedding,
        {"vocabulary_size": 9, "hidden_dim": 8},
        [],
        {"inputs": IDS},
    ),
    "logits": (
        TokenEmbedding,
        {"vocabulary_size": 9, "hidden_dim": 8, "use_logits_bias": True},
        [X],
        {"reverse": True},
    ),
    "PositionalEmbedding": (
        PositionalEmbedding,
        {
            "vocabulary_size": 9,
            "hidden_dim": 8,
            "positions": "learned",
            "max_length": 3,
            "dropout": 0.3,
            "word_dropout": 0.3,
            "mask_id": 0,
        },
        [],
        {"inputs": IDS},
    ),
    "TransformerEncoderLayer": (
        TransformerEncoderLayer,
        {**SIZES, **RATES, "normalize_first": True},
        [X],
        {"mask": MASK},
    ),
    "TransformerDecoderLayer": (
        TransformerDecoderLayer,
        {**SIZES, **RATES, "use_bias": True},
        [X, MEMORY],
        {"memory_mask": MASK},
    ),
    "a decoder layer with an SSRU": (
        TransformerDecoderLayer,
        {**SIZES, **RATES, "decoder_unit": "ssru"},
        [X, MEMORY],
        {"memory_mask": MASK},
    ),
}


def scope_of(mode):
    return keras.RematScope(mode=mode, output_size_threshold=1, layer_names=NAMES)


@functools.cache
def passes_in_training(name, mode):
    """Outputs and gradients of two passes in training, which draw different masks of dropout."""
    layer_class, arguments, inputs, options = LAYERS[name]
    keras.utils.set_random_seed(1)
    with scope_of(mode):
        layer = layer_class(**arguments, name="layer")
        layer(*inputs, **options)
        has_dropout = any("dropout" in argument for argument in arguments)
        options = {**options, **({"training": True} if has_dropout else {})}
        passes = []
        for _ in range(2):
            shape = layer(*inputs, **options).shape
            passes.append(outputs_and_gradients(layer, inputs, random(*shape, seed=2), **options))
    return [
        value
        for output, of_inputs, of_weights in passes
        for value in [output, *of_inputs, *of_weights.values()]
    ]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("mode", MODES)
def test_outputs_and_gradients_are_the_same(mode, name):
    for expected, found in zip(
        passes_in_training(name, None), passes_in_training(name, mode), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@functools.cache
def training_and_search(mode):
    """With every dropout there is, and one embedding for both sides, called twice in a step."""
    batch = {"source_ids": IDS, "target_ids": IDS}
    keras.utils.set_random_seed(1)
    with scope_of(mode):
        model = build_transformer(
            vocabulary_size=9,
            hidden_dim=8,
            num_encoder_layers=1,
            num_decoder_layers=1,
            **SIZES,
            **RATES,
            word_dropout=0.3,
        )
    model.compile("sgd", LabelSmoothingCrossEntropy())
    model.fit(batch, IDS, epochs=3, verbose=0)
    ids, scores = model.generate(IDS, beam_size=2, extra_length=2)
    found = [*model.variables, model.predict(batch, verbose=0), ids, scores]
    return [keras.ops.convert_to_numpy(each) for each in found]


@pytest.mark.parametrize("mode", MODES)
def test_a_model_trains_and_searches_alike(mode):
    for expected, found in zip(training_and_search(None), training_and_search(mode), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)


def test_activations_are_computed_again():
    """Once forwards, once more backwards; JAX traces once and marks what to compute again."""
    calls = []

    def counted(x):
        calls.append(x)
        return keras.ops.relu(x)

    with keras.RematScope("full"):
        layer = FeedForward(16, activation=counted)
        layer(X)
    calls.clear()
    if keras.backend.backend() != "jax":
        outputs_and_gradients(layer, [X], np.ones_like(X))
        assert len(calls) > 1
        return
    import jax

    assert "remat" in str(jax.make_jaxpr(layer)(X)) or "checkpoint" in str(jax.make_jaxpr(layer)(X))


@pytest.mark.skipif(keras.backend.backend() != "jax", reason="JAX differentiates functions")
def test_remat_of_a_layer_changes_no_gradient():
    """`keras.remat` of a function of weights; of a layer itself, Keras keeps its first weights."""
    import jax

    layer = TransformerEncoderLayer(**SIZES, dropout=0.3)
    layer(X)
    states = [variable.value for variable in layer.non_trainable_variables]

    def loss(weights, call):
        outputs, _ = call(weights, states, X)
        return keras.ops.sum(outputs**2 * X)

    weights = [variable.value for variable in layer.trainable_variables]
    plain, again = (
        jax.grad(loss)(weights, call)
        for call in (layer.stateless_call, keras.remat(layer.stateless_call))
    )
    for expected, found in zip(plain, again, strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-5)

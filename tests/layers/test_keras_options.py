"""Options and tools that Keras's layers have: regularizers, constraints, seeds, names."""

import keras
import numpy as np
import pytest

from keras_transformer.layers import (
    SSRU,
    FeedForward,
    MultiHeadAttention,
    PositionalEmbedding,
    ResidualBlock,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.models import build_transformer

VECTORS = np.random.default_rng(0).normal(size=(2, 3, 8)).astype("float32")
SIZES = {"intermediate_dim": 16, "num_heads": 2}
LAYERS = {
    "MultiHeadAttention": (MultiHeadAttention, {"num_heads": 2, "key_dim": 4, "use_bias": True}),
    "FeedForward": (FeedForward, {"intermediate_dim": 16}),
    "SSRU": (SSRU, {}),
    "TransformerEncoderLayer": (TransformerEncoderLayer, {**SIZES, "use_bias": True}),
    "TransformerDecoderLayer": (TransformerDecoderLayer, {**SIZES, "use_bias": True}),
}


def two_models():
    """The same model twice in one process, where Keras numbers names that are not given."""
    options = {"num_encoder_layers": 1, "num_decoder_layers": 1, "hidden_dim": 8, **SIZES}
    return [build_transformer(vocabulary_size=9, use_bias=True, **options) for _ in range(2)]


@pytest.mark.parametrize("name", LAYERS)
def test_a_policy_that_is_set_before_the_layer_is_built_is_that_of_all_parts(name):
    layer_class, options = LAYERS[name]
    layer = layer_class(**options)
    layer.dtype_policy = "mixed_bfloat16"
    copy = layer_class.from_config(layer.get_config())
    policies = [
        {part.dtype_policy.name for part in each._flatten_layers()} for each in (layer, copy)
    ]
    assert policies == [{"mixed_bfloat16"}] * 2
    assert keras.backend.standardize_dtype(layer(VECTORS).dtype) == "bfloat16"


@pytest.mark.parametrize("name", LAYERS)
def test_regularizers_and_constraints_reach_every_matrix_and_bias(name):
    layer_class, options = LAYERS[name]
    layer = layer_class(
        **options,
        kernel_regularizer=keras.regularizers.L2(0.5),
        bias_regularizer=keras.regularizers.L1(2.0),
        kernel_constraint="non_neg",
        bias_constraint=keras.constraints.MaxNorm(1.0),
        bias_initializer="random_normal",
    )
    layer = type(layer).from_config(layer.get_config())
    layer(VECTORS)
    expected = 0.0
    for weight in layer.trainable_weights:
        values = keras.ops.convert_to_numpy(weight).astype("float64")
        if weight.name == "kernel":
            expected += 0.5 * (values**2).sum()
            assert isinstance(weight.constraint, keras.constraints.NonNeg)
        elif weight.name == "bias":
            expected += 2.0 * np.abs(values).sum()
            assert weight.constraint.max_value == 1.0
        else:
            assert weight.name in ("gamma", "beta")
    np.testing.assert_allclose(sum(float(loss) for loss in layer.losses), expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("layer_class", "options", "rates"),
    [
        (MultiHeadAttention, {"num_heads": 2, "key_dim": 4}, ["dropout"]),
        (FeedForward, {"intermediate_dim": 16}, ["dropout"]),
        (ResidualBlock, {}, ["dropout"]),
        (TransformerEncoderLayer, SIZES, ["dropout", "attention_dropout", "activation_dropout"]),
        (TransformerDecoderLayer, SIZES, ["dropout", "attention_dropout", "activation_dropout"]),
    ],
)
def test_a_seed_decides_the_dropout(layer_class, options, rates):
    inputs = [VECTORS, VECTORS] if layer_class is ResidualBlock else [VECTORS]

    def dropped(seed):
        layer = layer_class(**options, **dict.fromkeys(rates, 0.5), seed=seed)
        layer = layer_class.from_config(layer.get_config())
        layer(*inputs)
        rng = np.random.default_rng(1)
        layer.set_weights([rng.normal(size=weight.shape) for weight in layer.weights])
        return keras.ops.convert_to_numpy(layer(*inputs, training=True))

    np.testing.assert_array_equal(dropped(3), dropped(3))
    assert np.abs(dropped(3) - dropped(4)).max() > 1e-3


def test_the_dropouts_of_a_layer_have_seeds_of_their_own():
    layer = TransformerDecoderLayer(**SIZES, dropout=0.5, attention_dropout=0.5, seed=3)
    layer(VECTORS, VECTORS)
    states = [tuple(np.asarray(v)) for v in layer.non_trainable_variables if "seed" in v.path]
    assert len(states) == 5
    assert len(set(states)) == 5


def test_a_users_subclass_has_its_own_configuration():
    class Wide(FeedForward):
        def __init__(self, times, **options):
            super().__init__(8 * times, **options)

    config = Wide(2, name="wide").get_config()
    assert config["intermediate_dim"] == 16
    assert "times" not in config


def test_weights_have_the_same_paths_in_every_model():
    first, second = ([weight.path for weight in model.weights] for model in two_models())
    assert first == second
    assert len(set(first)) == len(first)
    assert [path for path in first if "decoder_layer_1/cross_attention/" in path] == [
        f"decoder_layer_1/cross_attention/{projection}/{name}"
        for projection in ("query", "key_value", "output")
        for name in ("kernel", "bias")
    ]
    names = {part for path in first for part in path.split("/")}
    assert {"self_attention", "cross_attention", "feed_forward", "norm", "embedding"} <= names


def test_a_layer_of_an_embedding_has_two_seeds():
    layer = PositionalEmbedding(9, 8, dropout=0.5, word_dropout=0.5, seed=5)
    layer(np.array([[1, 2]]))
    first, second = (tuple(np.asarray(v)) for v in layer.non_trainable_variables)
    assert first != second


def test_float16_scales_the_loss_of_a_built_and_of_a_loaded_model(tmp_path):
    model = build_transformer(
        vocabulary_size=9, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=8, **SIZES,
        dtype="mixed_float16",
    )  # fmt: skip
    model.save(tmp_path / "model.keras")
    for each in (model, keras.saving.load_model(tmp_path / "model.keras")):
        each.compile("adam", "sparse_categorical_crossentropy")
        assert each.dtype_policy.name == "mixed_float16"
        assert isinstance(each.optimizer, keras.optimizers.LossScaleOptimizer)
    plain, _ = two_models()
    plain.compile("adam", "sparse_categorical_crossentropy")
    assert not isinstance(plain.optimizer, keras.optimizers.LossScaleOptimizer)

"""Keras's quantization and LoRA on layers and on whole models."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import SearchOptions, SequenceGenerator
from keras_transformer.layers import (
    SSRU,
    FeedForward,
    MultiHeadAttention,
    PositionalEmbedding,
    TokenEmbedding,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.dense import Dense
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.runs.model_weights import rounded_to_int8
from tests.layers.gradients import outputs_and_gradients

VECTORS = np.random.default_rng(0).normal(size=(2, 5, 32)).astype("float32")
IDS = np.array([[3, 4, 5, 2], [6, 2, 0, 0]], "int32")
SMALL = {"hidden_dim": 32, "intermediate_dim": 64, "num_heads": 2, "vocabulary_size": 40}
LAYERS = {
    "attention": lambda: MultiHeadAttention(2, 16, use_bias=True),
    "feed_forward": lambda: FeedForward(64),
    "encoder_layer": lambda: TransformerEncoderLayer(64, 2),
    "ssru": lambda: SSRU(),
    "decoder_layer": lambda: TransformerDecoderLayer(64, 2, use_bias=True),
}


def numbers(tensor):
    return ops.convert_to_numpy(tensor).astype("float64")


def small_transformer(**options):
    return build_transformer(num_encoder_layers=1, num_decoder_layers=2, **SMALL, **options)


def predict(model):
    return numbers(model({"source_ids": IDS, "target_ids": IDS}))


def matrices(layer):
    return [weight for weight in layer.weights if len(weight.shape) == 2]


def by_keras(values, mode, axis):
    """Keras's scheme: a scale for each output, and integers of 8 or 4 bits."""
    most = 127 if mode == "int8" else 7
    scale = most / (np.abs(values).max(axis=axis, keepdims=True) + 1e-7)
    return np.clip(np.round(values * scale), -most - (mode == "int4"), most) / scale


@pytest.mark.parametrize("name", LAYERS)
def test_int8_weights_are_those_of_keras_and_near_the_formula(name):
    layer = LAYERS[name]()
    inputs = keras.Input((5, 32))
    model = keras.Model(inputs, layer(inputs))
    plain, kernels = predict_vectors(model), [numbers(w) for w in matrices(layer)]
    model.quantize("int8")
    integers = [weight for weight in matrices(layer) if weight.dtype == "int8"]
    scales = [numbers(w) for w in layer.weights if w.name == "kernel_scale"]
    assert len(integers) == len(kernels) == len(scales)
    for kernel, weight, scale in zip(kernels, integers, scales, strict=True):
        np.testing.assert_allclose(numbers(weight) / scale, by_keras(kernel, "int8", 0), atol=1e-6)
    # Activations have 8 bits too: each product is off by 1 % at most.
    assert np.abs(predict_vectors(model) - plain).max() < 0.05 * np.abs(plain).max()
    assert np.abs(predict_vectors(model) - plain).max() > 0


def predict_vectors(model):
    return numbers(model(VECTORS))


@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("layer_class", [TokenEmbedding, PositionalEmbedding])
@pytest.mark.parametrize("tie_weights", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_embeddings_and_logits_are_quantized(mode, layer_class, tie_weights, dtype):
    layer = layer_class(40, 32, tie_weights=tie_weights, use_logits_bias=True, dtype=dtype)
    inputs = keras.Input((None,), dtype="int32")
    model = keras.Model(inputs, layer(layer(inputs), reverse=True))
    tokens = getattr(layer, "token_embedding", layer)
    tokens.logits_bias.assign(np.arange(40))
    matrix = numbers(tokens.matrix)
    plain = numbers(model(IDS))
    model.quantize(mode)
    found = numbers(model(IDS))
    assert found.dtype == plain.dtype
    atol = (0.05 if mode == "int8" else 0.5) * np.abs(plain - np.arange(40)).max()
    np.testing.assert_allclose(found, plain, atol=atol)
    if mode == "int8" and layer_class is TokenEmbedding and dtype == "float32":
        expected = by_keras(matrix, mode, 1)[IDS]
        np.testing.assert_allclose(numbers(layer(IDS)), expected, atol=1e-6)


@pytest.mark.parametrize("mode", ["int8", pytest.param("int4", marks=pytest.mark.slow)])
@pytest.mark.parametrize("tie_weights", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_quantized_model_is_saved_and_loaded(mode, tie_weights, tmp_path):
    model = small_transformer(tie_weights=tie_weights, use_bias=True)
    size = sum(np.prod(w.shape) * 4 for w in model.weights)
    model.quantize(mode)
    bytes_of = {"int8": 1, "float32": 4}
    quantized = sum(np.prod(w.shape) * bytes_of[w.dtype] for w in model.weights)
    assert quantized < (0.45 if mode == "int8" else 0.4) * size  # of width 32: scales count
    expected = predict(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(predict(loaded), expected, atol=1e-6)
    model.save_weights(tmp_path / "model.weights.h5")
    other = small_transformer(tie_weights=tie_weights, use_bias=True)
    other.quantize(mode)
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_allclose(predict(other), expected, atol=1e-6)


@pytest.mark.slow
def test_custom_configurations_survive_saving(tmp_path):
    """Weights alone in 8 bits, without those of activations."""
    model = small_transformer()
    model.quantize(config=keras.quantizers.Int8QuantizationConfig(activation_quantizer=None))
    expected = predict(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(predict(loaded), expected, atol=1e-6)
    kernel = loaded.get_layer("encoder_layer_1").attention.projections["output"]
    assert kernel.inputs_quantizer is None


@pytest.mark.parametrize("mode", ["int8", "int4"])
def test_steps_use_the_quantized_weights(mode):
    model = small_transformer()
    model.quantize(mode)
    options = SearchOptions(beam_size=2, alpha=0.0, extra_length=3)
    found, scores = SequenceGenerator(model).search(IDS, options=options)
    for row, ids in enumerate(ops.convert_to_numpy(found)[:, 0]):
        ids = ids[ids != 0]
        targets = np.concatenate([[1], ids[:-1]])[None]
        logits = numbers(model({"source_ids": IDS[row : row + 1], "target_ids": targets}))[0]
        log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
        total = log_probs[np.arange(len(ids)), ids].sum()
        np.testing.assert_allclose(float(scores[row, 0]), total, atol=1e-3)


def test_gradients_reach_what_is_not_quantized():
    layer = FeedForward(64)
    inputs = keras.Input((5, 32))
    model = keras.Model(inputs, layer(inputs))
    model.quantize("int8")
    model.compile("sgd", "mse")
    before = [numbers(weight) for weight in model.trainable_weights]
    model.fit(VECTORS, VECTORS, verbose=0)
    assert [weight.name for weight in model.trainable_weights] == ["bias", "bias"]
    for weight, earlier in zip(model.trainable_weights, before, strict=True):
        assert np.abs(numbers(weight) - earlier).max() > 0


@pytest.mark.parametrize("name", LAYERS)
def test_lora_begins_as_the_layer_and_learns_its_change(name):
    layer = LAYERS[name]()
    plain, number = numbers(layer(VECTORS)), len(matrices(layer))
    kernels = [numbers(weight) for weight in matrices(layer)]
    layer.enable_lora(2, lora_alpha=4)
    np.testing.assert_allclose(numbers(layer(VECTORS)), plain, atol=1e-6)
    trainable = {weight.name for weight in layer.trainable_weights}
    assert trainable <= {"lora_kernel_a", "lora_kernel_b", "bias", "gamma", "beta"}
    rng = np.random.default_rng(1)
    pairs = {}
    for weight in layer.trainable_weights:
        if "lora" in weight.name:
            weight.assign(rng.normal(size=weight.shape) / 10)
            owner, _, half = weight.path.rpartition("_")
            pairs.setdefault(owner, {})[half] = numbers(weight)
    assert len(pairs) == number
    found = numbers(layer(VECTORS))
    merged = LAYERS[name]()
    merged(VECTORS)
    merged.set_weights([w for w in layer.get_weights() if w.shape[-1:] != (2,) and w.shape[0] != 2])
    products = [2.0 * pair["a"] @ pair["b"] for pair in pairs.values()]
    for weight, kernel, change in zip(matrices(merged), kernels, products, strict=True):
        weight.assign(kernel + change)
    np.testing.assert_allclose(found, numbers(merged(VECTORS)), atol=1e-5)


@pytest.mark.parametrize("tie_weights", [True, False])
def test_lora_on_embeddings(tie_weights):
    layer = PositionalEmbedding(40, 32, tie_weights=tie_weights)
    plain = numbers(layer(IDS))
    logits = numbers(layer(VECTORS, reverse=True))
    layer.enable_lora(2)
    tokens = layer.token_embedding
    np.testing.assert_allclose(numbers(layer(IDS)), plain, atol=1e-6)
    assert not numbers(tokens.lora_embeddings_a).any()  # what is never seen stays as it was
    tokens.lora_embeddings_a.assign(np.random.default_rng(0).normal(size=(40, 2)) / 10)
    change = numbers(tokens.lora_embeddings_a) @ numbers(tokens.lora_embeddings_b)
    np.testing.assert_allclose(numbers(layer(IDS)), plain + 32**0.5 * change[IDS], atol=1e-4)
    expected = logits + (VECTORS.astype("float64") @ change.T if tie_weights else 0)
    np.testing.assert_allclose(numbers(layer(VECTORS, reverse=True)), expected, atol=1e-4)


def test_a_file_has_the_merged_weights_of_lora(tmp_path):
    model = build_language_model(num_decoder_layers=1, use_bias=True, **SMALL)
    for layer in model.layers[1:]:
        layer.enable_lora(2)
    rng = np.random.default_rng(0)
    for weight in model.trainable_weights:
        weight.assign(numbers(weight) + rng.normal(size=weight.shape) / 10)
    expected = numbers(model({"token_ids": IDS}))
    model.save_weights(tmp_path / "model.weights.h5")
    model.save(tmp_path / "model.keras")
    plain = build_language_model(num_decoder_layers=1, use_bias=True, **SMALL)
    plain.load_weights(tmp_path / "model.weights.h5")
    for other in (plain, keras.saving.load_model(tmp_path / "model.keras")):
        np.testing.assert_allclose(numbers(other({"token_ids": IDS})), expected, atol=1e-5)
        assert not any("lora" in weight.path for weight in other.weights)


def test_lora_needs_weights():
    with pytest.raises(ValueError, match="must be called, or loaded, before `enable_lora`"):
        TransformerEncoderLayer(64, 2).enable_lora(2)


def to_integers(matrix, axis):
    """The matrix that an int8 file stores, with a scale for each channel."""
    integers, divisors = rounded_to_int8(matrix, by_rows=axis == 1)
    return integers / divisors


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16"])
def test_a_rounded_kernel_has_the_gradient_of_the_plain_one(dtype):
    layer = Dense(6, use_bias=False, dtype=dtype)
    layer.build((None, 32))
    kernel = numbers(layer.kernel)
    factors = np.random.default_rng(1).normal(size=(2, 5, 6)).astype("float32")
    layer.rounds_to_int8 = True
    outputs, _, gradients = outputs_and_gradients(layer, [VECTORS], factors)
    near = {"rtol": 1e-4, "atol": 1e-5} if dtype == "float32" else {"rtol": 0.02, "atol": 0.05}
    expected = VECTORS.astype("float64") @ to_integers(kernel, 0)
    np.testing.assert_allclose(outputs.astype("float64"), expected, **near)
    (gradient,) = gradients.values()
    np.testing.assert_allclose(
        gradient.astype("float64"), np.einsum("bli,blo->io", VECTORS, factors), **near
    )


@pytest.mark.parametrize("tie_weights", [True, False])
def test_a_rounded_embedding_has_a_scale_for_each_token(tie_weights):
    layer = TokenEmbedding(40, 32, tie_weights=tie_weights)
    layer.build()
    matrix = numbers(layer.matrix)
    matrix[3] = 0
    layer.matrix.assign(matrix)
    layer.rounds_to_int8 = True
    np.testing.assert_allclose(numbers(layer(IDS)), to_integers(matrix, 1)[IDS], atol=1e-6)
    output = (
        to_integers(matrix, 1).T if tie_weights else to_integers(numbers(layer.reverse_matrix), 0)
    )
    logits = VECTORS.astype("float64") @ output
    np.testing.assert_allclose(numbers(layer(VECTORS, reverse=True)), logits, atol=1e-4)
    tokens = np.array([3, 7, 39], "int32")
    some = layer.logits(VECTORS, layer.output_matrix(tokens), tokens)
    np.testing.assert_allclose(numbers(some), logits[..., tokens], atol=1e-4)

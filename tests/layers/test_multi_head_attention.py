import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from tests.layers.numpy_layers import kernels_of, multi_head_attention, random

HEADS, KEY_DIM, VALUE_DIM, HIDDEN, MEMORY = 3, 4, 5, 8, 6


def test_self_attention_equals_the_formula():
    layer = MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM)
    x = random(2, 7, HIDDEN)
    mask = np.random.default_rng(1).random((2, 7, 7)) < 0.6
    mask |= np.eye(7, dtype=bool)
    output = layer(x, attention_mask=mask)
    _, scores = layer(x, attention_mask=mask, return_attention_scores=True)
    for row in range(2):
        values = x[row].astype("float64")
        expected, weights = multi_head_attention(
            values, values, kernels_of(layer), HEADS, mask[row]
        )
        np.testing.assert_allclose(ops.convert_to_numpy(output)[row], expected, atol=1e-5)
        np.testing.assert_allclose(ops.convert_to_numpy(scores)[row], weights, atol=1e-5)


def test_attention_to_a_memory_equals_the_formula():
    layer = MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM)
    query, memory = random(1, 4, HIDDEN), random(1, 9, MEMORY, seed=1)
    mask = np.arange(9)[None, None] < 6
    output = ops.convert_to_numpy(layer(query, memory, attention_mask=mask))
    expected, _ = multi_head_attention(
        query[0].astype("float64"),
        memory[0].astype("float64"),
        kernels_of(layer),
        HEADS,
        np.broadcast_to(mask[0], (4, 9)),
    )
    np.testing.assert_allclose(output[0], expected, atol=1e-5)


@pytest.mark.parametrize("is_self_attention", [True, False])
def test_queries_and_keys_are_divided_by_their_root_mean_square(is_self_attention):
    layer = MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, qk_norm=True)
    query = 30 * random(1, 4, HIDDEN)
    value = query if is_self_attention else random(1, 9, MEMORY, seed=1)
    inputs = [query] if is_self_attention else [query, value]
    layer(*inputs)
    scales = random(2, KEY_DIM, seed=2)
    for norm, scale in zip((layer.query_norm, layer.key_norm), scales, strict=True):
        norm.scale.assign(scale)
    expected, _ = multi_head_attention(
        query[0].astype("float64"),
        value[0].astype("float64"),
        kernels_of(layer),
        HEADS,
        np.ones((4, value.shape[1]), bool),
        scales,
    )
    np.testing.assert_allclose(ops.convert_to_numpy(layer(*inputs))[0], expected, atol=2e-5)


def test_biases_are_added_to_every_projection():
    layer = MultiHeadAttention(HEADS, KEY_DIM, use_bias=True)
    x = random(1, 3, HIDDEN)
    layer(x)
    biases = [weight for weight in layer.weights if weight.name == "bias"]
    assert sorted(tuple(bias.shape) for bias in biases) == [(HIDDEN,), (3 * HEADS * KEY_DIM,)]
    for weight in layer.weights:
        weight.assign(np.zeros(weight.shape))
    layer.projections["output"].bias.assign(np.arange(HIDDEN))
    np.testing.assert_allclose(ops.convert_to_numpy(layer(x))[0, 1], np.arange(HIDDEN))


BIASES = [{}, {"use_bias": True, "bias_initializer": "random_normal"}]


@pytest.mark.parametrize("biases", BIASES, ids=["plain", "biases"])
@pytest.mark.parametrize("has_key", [False, True])
def test_projected_memory_equals_a_call(biases, has_key):
    layer = MultiHeadAttention(HEADS, KEY_DIM, value_dim=VALUE_DIM, **biases)
    query, memory = random(2, 4, HIDDEN), [random(2, 9, MEMORY, seed=1)]
    if has_key:
        memory.append(random(2, 9, 5, seed=2))
    mask = np.arange(9) < np.array([9, 5])[:, None]
    expected = ops.convert_to_numpy(layer(query, *memory, attention_mask=mask))
    for some_mask in (mask, mask[:, None]):
        output = layer.attend_memory(query, layer.project_memory(*memory), some_mask)
        np.testing.assert_allclose(ops.convert_to_numpy(output), expected, atol=1e-6)


def test_a_causal_mask_of_two_lengths():
    layer = MultiHeadAttention(HEADS, KEY_DIM)
    x, memory = random(1, 3, HIDDEN), random(1, 5, MEMORY, seed=1)
    _, scores = layer(x, memory, use_causal_mask=True, return_attention_scores=True)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(scores)[0, 0] > 0, np.tril(np.ones((3, 5), bool))
    )


def test_fused_matrices_are_initialised_as_separate_ones():
    keras.utils.set_random_seed(1)
    layer = MultiHeadAttention(num_heads=8, key_dim=64, value_dim=16)
    layer(random(1, 2, 512))
    fused = np.asarray(layer.projections["query_key_value"].kernel)
    for start, stop in ((0, 512), (512, 1024), (1024, 1152)):
        limit = np.sqrt(6 / (512 + stop - start))
        part = np.abs(fused[:, start:stop])
        assert 0.999 * limit < part.max() <= limit
        assert part.mean() == pytest.approx(limit / 2, rel=0.01)
    assert not np.allclose(fused[:, :512], fused[:, 512:1024])


def test_parts_of_fused_weights_are_drawn_one_by_one():
    shapes = []

    def initializer(shape, dtype=None):
        shapes.append(tuple(shape))
        return ops.full(shape, len(shapes), dtype=dtype)

    options = {"kernel_initializer": initializer, "bias_initializer": initializer}
    layer = MultiHeadAttention(2, 3, value_dim=5, use_bias=True, **options)
    layer.build((None, None, HIDDEN))
    kernels, biases = [(HIDDEN, 6), (HIDDEN, 6), (HIDDEN, 10)], [(6,), (6,), (10,)]
    assert shapes == [*kernels, *biases, (10, HIDDEN), (HIDDEN,)]
    bias = ops.convert_to_numpy(layer.projections["query_key_value"].bias)
    assert bias.tolist() == [4.0] * 6 + [5.0] * 6 + [6.0] * 10


def test_a_seed_generator_draws_other_numbers_for_each_part():
    seed = keras.random.SeedGenerator(1)
    layer = TransformerEncoderLayer(
        HIDDEN, 2, kernel_initializer=keras.initializers.HeNormal(seed=seed)
    )
    layer.build((None, None, HIDDEN))
    fused = ops.convert_to_numpy(layer.attention.projections["query_key_value"].kernel)
    matrices = [*np.split(fused, 3, axis=1), layer.feed_forward.expand.kernel]
    values = {float(ops.convert_to_numpy(matrix)[0, 0]) for matrix in matrices}
    assert len(values) == len(matrices)


def test_the_initializers_of_a_layer_reach_all_its_parts():
    for layer_class in (TransformerEncoderLayer, TransformerDecoderLayer):
        layer = layer_class(
            12, 2, use_bias=True, kernel_initializer="ones", bias_initializer="random_normal"
        )
        layer(random(1, 3, HIDDEN))
        matrices = [weight for weight in layer.weights if len(weight.shape) == 2]
        biases = [weight for weight in layer.weights if weight.name.endswith("bias")]
        assert [len(matrices), len(biases)] == [4, 4]
        assert all((ops.convert_to_numpy(matrix) == 1).all() for matrix in matrices)
        assert all(ops.convert_to_numpy(bias).std() > 0 for bias in biases)


def test_dropout_acts_on_the_weights_in_training_alone():
    layer = MultiHeadAttention(HEADS, KEY_DIM, dropout=0.5)
    x = random(1, 6, HIDDEN)
    still = ops.convert_to_numpy(layer(x))
    np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, training=False)), still)
    assert not np.allclose(ops.convert_to_numpy(layer(x, training=True)), still)


def test_softmax_is_float32_under_a_mixed_policy():
    layer = MultiHeadAttention(HEADS, KEY_DIM, dtype="mixed_bfloat16")
    output, scores = layer(random(1, 300, HIDDEN), return_attention_scores=True)
    assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
    assert keras.backend.standardize_dtype(scores.dtype) == "float32"
    np.testing.assert_allclose(ops.convert_to_numpy(scores).sum(axis=-1), 1, atol=1e-5)


def test_a_layer_keeps_to_what_it_was_built_for():
    x = random(1, 3, HIDDEN)
    layers = [MultiHeadAttention(2, 4) for _ in range(3)]
    for layer, arguments in zip(layers, ([x], [x, x], [x, x, x]), strict=True):
        layer(*arguments)
        for others in {1, 2, 3} - {len(arguments)}:
            with pytest.raises(ValueError, match="was built for .*Received: a call for"):
                layer(*[x] * others)
            with pytest.raises(ValueError, match="was built for .*Received: a call for"):
                layer(*[keras.KerasTensor(x.shape)] * others)
    with pytest.raises(ValueError, match="built for self-attention"):
        layers[0].project_memory(x)
    with pytest.raises(ValueError, match="`value` must be given with `key`"):
        MultiHeadAttention(2, 4)(x, key=x)


def test_inputs_have_a_known_width():
    with pytest.raises(ValueError, match=r"last axis of `query` must be known.*None"):
        MultiHeadAttention(2, 4)(keras.KerasTensor((None, None, None)))

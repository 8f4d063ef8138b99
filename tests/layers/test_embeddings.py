import math

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import PaddingMask, PositionalEmbedding, TokenEmbedding
from keras_transformer.layers.positions import sinusoidal_positions
from tests.layers.layer_contract import check_layer_contract
from tests.layers.numpy_layers import position

IDS = np.array([[5, 2, 9], [1, 0, 0]], dtype="int32")


@pytest.mark.parametrize("hidden_dim", [6, 7, 512])
def test_sinusoids_equal_the_closed_formula(hidden_dim):
    positions = np.array([0, 1, 2, 500, 1999])
    actual = ops.convert_to_numpy(sinusoidal_positions(positions, hidden_dim))
    expected = [[position(pos, i, hidden_dim) for i in range(hidden_dim)] for pos in positions]
    # float32 angles of about 2,000 are known to 1.2e-4
    np.testing.assert_allclose(actual[:3], expected[:3], atol=1e-6)
    np.testing.assert_allclose(actual, expected, atol=2e-4)


def test_sum_of_scaled_token_and_position():
    layer = PositionalEmbedding(10, 6)
    output = ops.convert_to_numpy(layer(IDS))
    matrix = np.asarray(layer.token_embedding.matrix, "float64")
    for row, column in np.ndindex(IDS.shape):
        expected = matrix[IDS[row, column]] * math.sqrt(6)
        expected = expected + [position(column, i, 6) for i in range(6)]
        np.testing.assert_allclose(output[row, column], expected, atol=1e-5)


def test_word_dropout_takes_whole_vectors_and_leaves_the_positions():
    layer = PositionalEmbedding(10, 6, word_dropout=0.25)
    ids = np.tile(IDS, (200, 1))
    plain = ops.convert_to_numpy(layer(ids, training=False))
    positions = plain - ops.convert_to_numpy(layer.token_embedding(ids)) * math.sqrt(6)
    tokens = ops.convert_to_numpy(layer(ids, training=True)) - positions
    is_dropped = np.abs(tokens).max(axis=-1) < 1e-5
    kept = (plain - positions)[~is_dropped] / 0.75
    np.testing.assert_allclose(tokens[~is_dropped], kept, atol=1e-5)
    assert 0.2 < is_dropped.mean() < 0.3
    assert PositionalEmbedding.from_config(layer.get_config()).word_dropout == 0.25


@pytest.mark.parametrize(
    "options",
    [{}, {"positions": "learned", "max_length": 4}, {"positions": "words", "word_starts": [1, 9]}],
    ids=lambda options: options.get("positions", "sinusoidal"),
)
def test_steps_equal_a_call(options):
    layer = PositionalEmbedding(10, 6, num_tables=2, **options)
    expected = ops.convert_to_numpy(layer(IDS, table=1))
    cache = layer.start_cache(2, 1)
    for index in range(3):
        output, cache = layer.step(IDS[:, index : index + 1], index, cache, table=1)
        np.testing.assert_allclose(output[:, 0], expected[:, index], atol=1e-6)


def test_words_are_counted_and_places_in_them():
    layer = PositionalEmbedding(10, 6, positions="words", word_starts=[3, 4])
    ids = np.array([[7, 8, 3, 8, 8, 4, 3, 7], [4, 4, 4, 1, 0, 0, 0, 0]])
    words = [[0, 0, 1, 1, 1, 2, 3, 3], [1, 2, 3, 3, 3, 3, 3, 3]]
    places = [[0, 1, 0, 1, 2, 0, 0, 1], [0, 0, 0, 1, 2, 3, 4, 5]]
    output = ops.convert_to_numpy(layer(ids))
    matrix = np.asarray(layer.token_embedding.matrix, "float64")
    table = np.asarray(layer.kind.places, "float64")
    for index in np.ndindex(ids.shape):
        expected = matrix[ids[index]] * math.sqrt(6) + table[places[index[0]][index[1]]]
        expected = expected + [position(words[index[0]][index[1]], i, 6) for i in range(6)]
        np.testing.assert_allclose(output[index], expected, atol=1e-5)


def test_places_beyond_the_table_share_its_last_row():
    layer = PositionalEmbedding(10, 6, positions="words", word_starts=[3])
    ids = np.array([[3] + [5] * 40])
    output = ops.convert_to_numpy(layer(ids))[0]
    assert tuple(layer.kind.places.shape) == (32, 6)
    np.testing.assert_array_equal(output[31:], np.broadcast_to(output[31], (10, 6)))
    assert np.abs(output[30] - output[31]).max() > 1e-3
    cache = layer.start_cache(1, 1)
    for index in range(41):
        step, cache = layer.step(ids[:, index : index + 1], index, cache)
        np.testing.assert_allclose(ops.convert_to_numpy(step)[0, 0], output[index], atol=1e-6)


def test_learned_tables_are_separate():
    layer = PositionalEmbedding(10, 6, positions="learned", max_length=4, num_tables=2)
    source, target = (ops.convert_to_numpy(layer(IDS, table=table)) for table in (0, 1))
    assert not np.allclose(source, target)
    assert [tuple(table.shape) for table in layer.kind.tables] == [(4, 6), (4, 6)]


def test_more_tokens_than_learned_positions_are_refused():
    layer = PositionalEmbedding(10, 6, positions="learned", max_length=2)
    with pytest.raises(ValueError, match=r"length=3, max_length=2"):
        layer(IDS)


def test_logits_are_products_with_the_embeddings():
    layer = TokenEmbedding(10, 6)
    vectors = np.random.default_rng(0).normal(size=(2, 3, 6)).astype("float32")
    layer(IDS)
    logits = ops.convert_to_numpy(layer(vectors, reverse=True))
    np.testing.assert_allclose(
        logits, vectors.astype("float64") @ np.asarray(layer.matrix, "float64").T, atol=1e-5
    )
    assert len(layer.trainable_weights) == 1


@pytest.mark.parametrize(
    "dtype",
    [
        "float32",
        "mixed_bfloat16",
        "bfloat16",
        pytest.param("float64", marks=pytest.mark.tensorflow),  # as test_freezing.py
    ],
)
def test_a_bias_is_added_to_the_logits_in_float32(dtype):
    layer, plain = (
        TokenEmbedding(10, 6, use_logits_bias=use_bias, dtype=dtype) for use_bias in (True, False)
    )
    vectors = np.random.default_rng(0).normal(size=(2, 3, 6)).astype("float32")
    layer(IDS), plain(IDS)
    bias = np.random.default_rng(1).normal(size=10).astype("float32")
    plain.set_weights([layer.matrix])
    layer.logits_bias.assign(bias)
    logits = ops.convert_to_numpy(layer(vectors, reverse=True))
    bias = ops.convert_to_numpy(ops.cast(layer.logits_bias, "float32"))
    expected = ops.convert_to_numpy(plain(vectors, reverse=True)) + bias
    assert logits.dtype == np.float32
    np.testing.assert_array_equal(logits, expected)
    assert [weight.name for weight in layer.weights] == ["matrix", "logits_bias"]


def test_untied_logits_have_a_matrix_of_their_own():
    layer = TokenEmbedding(10, 6, tie_weights=False)
    vectors = np.random.default_rng(0).normal(size=(2, 3, 6)).astype("float32")
    reference = keras.layers.ReversibleEmbedding(10, 6, tie_weights=False)
    embedded, _ = layer(IDS), reference(IDS)
    reference.set_weights(layer.get_weights())
    np.testing.assert_allclose(embedded, reference(IDS), atol=1e-6)
    logits = ops.convert_to_numpy(layer(vectors, reverse=True))
    np.testing.assert_allclose(logits, reference(vectors, reverse=True), atol=1e-5)
    assert [tuple(weight.shape) for weight in layer.weights] == [(10, 6), (6, 10)]


def keras_mask(tensor):
    """The mask that Keras put on a tensor, or None."""
    mask = getattr(tensor, "_keras_mask", None)
    return None if mask is None else ops.convert_to_numpy(mask).tolist()


def test_padding_has_a_keras_mask_where_its_id_is_given():
    layer = PositionalEmbedding(10, 6, mask_id=0)
    reference = keras.layers.Embedding(10, 6, mask_zero=True)
    hidden = layer(IDS)
    assert keras_mask(hidden) == keras_mask(reference(IDS))
    assert keras_mask(layer(hidden, reverse=True)) == [[True] * 3, [True, False, False]]
    assert keras_mask(PositionalEmbedding(10, 6, mask_id=5)(IDS))[0] == [False, True, True]
    assert keras_mask(PositionalEmbedding(10, 6)(IDS)) is None


def test_the_matrix_has_the_scale_of_the_paper():
    keras.utils.set_random_seed(1)
    layer = TokenEmbedding(5000, 64)
    layer(IDS)
    assert np.asarray(layer.matrix).std() == pytest.approx(64**-0.5, rel=0.01)


def test_ids_and_positions_are_exact_under_bfloat16():
    layer = PositionalEmbedding(600, 8, dtype="mixed_bfloat16")
    ids = np.array([[256, 257, 258, 511, 513]])
    output = ops.convert_to_numpy(ops.cast(layer(ids), "float32"))[0]
    full = PositionalEmbedding(600, 8)
    full(ids)
    full.set_weights(layer.get_weights())
    np.testing.assert_allclose(output, ops.convert_to_numpy(full(ids))[0], atol=0.06)
    # An angle computed in bfloat16 would be off by up to 4 at position 1001.
    late = np.zeros((1, 1002), "int32")
    difference = ops.cast(layer(late), "float32") - full(late)
    assert np.abs(ops.convert_to_numpy(difference)).max() < 0.06


def test_padding_mask():
    mask = ops.convert_to_numpy(PaddingMask(padding_id=9)(IDS))
    assert mask.tolist() == [[[True, True, False]], [[True, True, True]]]


def test_contracts():
    vectors = np.ones((2, 3, 6), "float32")
    check_layer_contract(TokenEmbedding(10, 6), vectors, reverse=True)
    check_layer_contract(TokenEmbedding(10, 6, tie_weights=False), vectors, reverse=True)
    check_layer_contract(
        PositionalEmbedding(10, 6, positions="learned", max_length=5, num_tables=2), IDS, table=1
    )
    for dtype in ("float32", "mixed_bfloat16"):
        layer = PositionalEmbedding(10, 6, positions="words", word_starts=(1, 9), dtype=dtype)
        check_layer_contract(layer, IDS)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"`positions` must be one of .*Received: .*'rotated'"):
        PositionalEmbedding(10, 6, positions="rotated")
    with pytest.raises(ValueError, match=r"`mask_id` must be less than `vocabulary_size`.*=10, "):
        PositionalEmbedding(10, 6, mask_id=10)
    for inputs in (np.ones((1, 2, 6), "int32"), np.ones(2, "int32"), keras.Input((None, 6))):
        with pytest.raises(ValueError, match=r"`inputs` must be ids \(batch, length\).*shape"):
            PositionalEmbedding(10, 6)(inputs)
    with pytest.raises(ValueError, match=r"`word_starts` must be given with .*Received: .*None"):
        PositionalEmbedding(10, 6, positions="words")
    with pytest.raises(ValueError, match=r"`word_starts` must be given .* and only then.*\[1\]"):
        PositionalEmbedding(10, 6, word_starts=[1])
    for word_starts in ([], [3, 10]):
        with pytest.raises(ValueError, match=r"`word_starts` must be one or more ids less than"):
            PositionalEmbedding(10, 6, positions="words", word_starts=word_starts)
    with pytest.raises(ValueError, match=r"`word_starts` must be an integer >= 0.*-1"):
        PositionalEmbedding(10, 6, positions="words", word_starts=[-1])


@pytest.mark.parametrize("layer_class", [TokenEmbedding, PositionalEmbedding])
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32", "float64", "float16"])
@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_ids_of_any_type_are_read_exactly(layer_class, dtype, policy):
    layer = layer_class(400, 6, dtype=policy)
    ids = np.array([[255, 1, 129]]) + (0 if dtype == "uint8" else 2)  # 257: none of bfloat16's
    symbolic = keras.Model(x := keras.Input((None,), dtype=dtype), layer(x))
    expected, *found = (
        ops.convert_to_numpy(ops.cast(vectors, "float32"))
        for vectors in (
            layer(ids.astype("int32")),
            layer(ids.astype(dtype)),
            symbolic(ids.astype(dtype)),
        )
    )
    for vectors in found:
        np.testing.assert_array_equal(vectors, expected)


@pytest.mark.parametrize("layer_class", [TokenEmbedding, PositionalEmbedding])
@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[1, 10]], "ids from 0 to 9, the vocabulary's. Received: id=10"),
        ([[-1, 10]], "ids from 0 to 9, the vocabulary's. Received: id=-1"),
        ([[1.0, np.nan]], "ids from 0 to 9, the vocabulary's. Received: id=nan"),
        ([[1.0, 2.5]], "ids, which are whole numbers. Received: id=2.5"),
    ],
)
def test_values_that_are_no_ids_are_refused(layer_class, ids, message):
    with pytest.raises(ValueError, match=message):
        layer_class(10, 6)(np.array(ids))


def test_the_matrix_takes_a_regularizer_and_a_constraint():
    layer = PositionalEmbedding(
        10, 6, embeddings_regularizer=keras.regularizers.L2(0.5), embeddings_constraint="non_neg"
    )
    layer(IDS)
    matrix = np.asarray(layer.token_embedding.matrix, "float64")
    np.testing.assert_allclose(float(layer.losses[0]), 0.5 * (matrix**2).sum(), rtol=1e-6)
    copy = PositionalEmbedding.from_config(layer.get_config())
    copy(IDS)
    assert copy.token_embedding.matrix.regularizer.l2 == 0.5
    assert isinstance(copy.token_embedding.matrix.constraint, keras.constraints.NonNeg)

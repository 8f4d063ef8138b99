"""The forms of attention masks, and the ranks of what is attended to."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import (
    MultiHeadAttention,
    TransformerDecoderLayer,
    TransformerEncoderLayer,
)
from keras_transformer.layers.attention_masks import causal_mask
from tests.layers.numpy_layers import attention, kernels_of, random

HEADS, KEY_DIM, HIDDEN, TARGET, SOURCE = 2, 4, 8, 5, 7


def random_mask(*shape, seed=0):
    """A mask with a True in each row."""
    mask = np.random.default_rng(seed).random(shape) < 0.5
    mask[..., 0] = True
    return mask


class Case:
    """A call with a mask: of a layer, whose attention has a source of some length."""

    def __init__(self, layer_class, mask_name, source):
        sizes = (HEADS, KEY_DIM) if layer_class is MultiHeadAttention else (12, HEADS)
        self.mask_name, self.source, self.layer = mask_name, source, layer_class(*sizes)
        self.has_memory = mask_name == "memory_mask" or source != TARGET

    def tensors(self, batch):
        lengths = (TARGET, SOURCE) if self.has_memory else (TARGET,)
        return [random(batch, length, HIDDEN, seed=length) for length in lengths]

    def __call__(self, tensors, mask, **options):
        if isinstance(self.layer, TransformerDecoderLayer):
            options["use_causal_mask"] = False
        return self.layer(*tensors, **{self.mask_name: mask}, **options)

    def outputs(self, batch, mask):
        return ops.convert_to_numpy(self(self.tensors(batch), mask))


CASES = {
    "attention": (MultiHeadAttention, "attention_mask", TARGET),
    "attention to a value": (MultiHeadAttention, "attention_mask", SOURCE),
    "encoder": (TransformerEncoderLayer, "mask", TARGET),
    "decoder": (TransformerDecoderLayer, "mask", TARGET),
    "decoder's memory": (TransformerDecoderLayer, "memory_mask", SOURCE),
}


@pytest.fixture(params=CASES)
def case(request):
    return Case(*CASES[request.param])


def symbols(arrays, batch=None):
    return [keras.KerasTensor((batch, *array.shape[1:]), str(array.dtype)) for array in arrays]


@pytest.mark.parametrize("batch", [1, 3])
def test_a_mask_of_positions_is_told_from_padding_by_its_first_axis(case, batch):
    mask = random_mask(TARGET, case.source)
    found = case.outputs(batch, mask)
    assert found.shape == (batch, TARGET, HIDDEN)
    np.testing.assert_array_equal(found, case.outputs(batch, mask[None]))
    assert np.abs(found - case.outputs(batch, None)).max() > 1e-3
    (mask_symbol,) = symbols([mask], TARGET)
    assert case(symbols(case.tensors(batch), batch), mask_symbol).shape == found.shape


def test_causal_masks_of_all_forms_are_the_same():
    layer, x = TransformerEncoderLayer(16, 2), random(1, TARGET, HIDDEN)
    expected = ops.convert_to_numpy(layer(x, use_causal_mask=True))
    triangle = np.tril(np.ones((TARGET, TARGET), bool))
    for mask in (triangle, triangle.astype("int32"), triangle[None], triangle[None, None]):
        np.testing.assert_array_equal(ops.convert_to_numpy(layer(x, mask=mask)), expected)


def test_a_mask_of_rank_2_that_may_be_padding_is_padding(case):
    mask = random_mask(TARGET, case.source)
    found = case.outputs(TARGET, mask)
    np.testing.assert_array_equal(found, case.outputs(TARGET, mask[:, None]))
    assert np.abs(found - case.outputs(TARGET, mask[None])).max() > 1e-3


def test_axes_of_1_are_for_all(case):
    full = random_mask(3, HEADS, TARGET, case.source)
    for mask in (
        full[:1],
        full[:, :1],
        full[:, :, :1],
        full[:1, :1],
        full[:, 0, :1],
        full[:1, 0],
        full[:, 0, :, :1],
        full[:1, 0, 0],
    ):
        lifted = mask[:, None] if mask.ndim == 3 else mask
        lifted = lifted[:, None, None] if mask.ndim == 2 else lifted
        expected = case.outputs(3, np.broadcast_to(lifted, full.shape))
        np.testing.assert_allclose(case.outputs(3, mask), expected, atol=1e-6)


@pytest.mark.parametrize(
    "shape",
    [
        (4, "S"),
        (3, 6),
        (3, 1),
        (6, "S"),
        (2, "T", "S"),
        (3, 4, "S"),
        (3, "T", 4),
        (3, 3, "T", "S"),
        (2, HEADS, "T", "S"),
        (3, HEADS, "T", 4),
        (3, HEADS, 4, "S"),
        ("S",),
        (3, 1, 1, "T", "S"),
    ],
)
def test_masks_that_do_not_fit_are_refused_in_one_message(case, shape):
    shape = tuple({"T": TARGET, "S": case.source}.get(size, size) for size in shape)
    mask, tensors = np.ones(shape, bool), case.tensors(3)
    message = (
        f"`{case.mask_name}` must be a padding mask.*"
        r"\(batch, target_length, source_length\).*`use_causal_mask=True`.*"
        + re.escape(f"Received: shape {shape} for ")
    )
    symbol = keras.KerasTensor(shape, "bool")
    for arguments in ((tensors, mask), (symbols(tensors, 3), symbol)):
        with pytest.raises(ValueError, match=message):
            case(*arguments)


def test_a_batch_that_nobody_knows_leaves_open_what_a_mask_is(case):
    """It would be another thing in a batch of that size."""
    tensors = symbols(case.tensors(1))
    shape = (TARGET, case.source)
    with pytest.raises(ValueError, match="`use_causal_mask=True`.*Received: shape"):
        case(tensors, np.ones(shape, bool))
    for mask in (random_mask(1, *shape), random_mask(1, case.source), random_mask(1, 1, *shape)):
        assert case(tensors, mask).shape == (None, TARGET, HIDDEN)
    padding = keras.KerasTensor((None, case.source), "bool")
    assert case(tensors, padding).shape == (None, TARGET, HIDDEN)


def test_functional_models_take_masks_of_all_forms(case):
    tensors = case.tensors(3)
    inputs = [keras.Input(array.shape[1:]) for array in tensors]
    full = random_mask(3, HEADS, TARGET, case.source)
    for mask in (full, full[:, 0], full[:, 0, 0], full[:, :, :1]):
        given = keras.Input(mask.shape[1:], dtype="bool")
        model = keras.Model([*inputs, given], case(inputs, given))
        found = model.predict([*tensors, mask], verbose=0)
        np.testing.assert_allclose(found, case.outputs(3, mask), atol=1e-5)
    constant = keras.Model(inputs, case(inputs, full[:1, 0]))
    expected = case.outputs(3, full[:1, 0])
    np.testing.assert_allclose(constant.predict(tensors, verbose=0), expected, atol=1e-5)


def test_a_mask_of_positions_is_not_handed_on_as_one_of_tokens():
    layer, x = TransformerEncoderLayer(16, 2), keras.KerasTensor((3, TARGET, HIDDEN))
    of_tokens, of_positions = (keras.KerasTensor((size, TARGET), "bool") for size in (3, TARGET))
    assert layer(x, mask=of_tokens)._keras_mask is of_tokens
    assert getattr(layer(x, mask=of_positions), "_keras_mask", None) is None
    outputs = layer(random(3, TARGET, HIDDEN), mask=random_mask(TARGET, TARGET))
    assert getattr(outputs, "_keras_mask", None) is None


def expected_output(layer, x, mask):
    """Self-attention in float64; `mask` (batch, heads, length, length)."""
    *kernels, output = kernels_of(layer)
    parts = [np.split(x @ kernel, HEADS, axis=2) for kernel in kernels]
    rows = []
    for row in range(len(x)):
        heads = [
            attention(*(each[row] for each in one_head), mask[row, head])[0]
            for head, one_head in enumerate(zip(*parts, strict=True))
        ]
        rows.append(np.concatenate(heads, axis=1) @ output)
    return np.stack(rows)


@pytest.mark.parametrize(
    ("length", "window"),
    [(6, None), (512, None), (6, 3), (150, 9)],
    ids=["short", "fused", "window", "blocks"],
)
@pytest.mark.parametrize("is_causal", [False, True])
def test_each_head_has_its_mask(length, window, is_causal, fused, spans):
    layer, x = (
        MultiHeadAttention(HEADS, KEY_DIM, attention_window=window),
        random(2, length, HIDDEN),
    )
    positions = np.arange(length)
    distance = positions[:, None] - positions
    seen = np.ones((length, length), bool)
    if window is not None:
        seen = (abs(distance) < window) if is_causal else (abs(distance) <= window // 2)
    if is_causal:
        seen = seen & (distance >= 0)
    for rows in (length, 1):
        mask = np.random.default_rng(rows).random((2, HEADS, rows, length)) < 0.5
        mask |= np.eye(length, dtype=bool)[:rows]
        mask[:, :, :, :: (2 if rows == 1 else length)] = True  # each window has a key
        options = {"attention_mask": mask, "use_causal_mask": is_causal}
        output, scores = layer(x, return_attention_scores=True, **options)
        allowed = np.broadcast_to(mask & seen, (2, HEADS, length, length))
        expected = expected_output(layer, x, allowed)
        for found in (output, layer(x, **options)):
            np.testing.assert_allclose(ops.convert_to_numpy(found), expected, atol=1e-5)
        assert (ops.convert_to_numpy(scores)[~allowed] == 0).all()
    assert (len(fused), len(spans)) == {6: (0, 0), 512: (2, 0), 150: (0, 1)}[length]


@pytest.mark.tensorflow
def test_graphs_that_know_no_sizes_take_masks_of_all_forms():
    import tensorflow as tf

    layer, x = TransformerEncoderLayer(16, HEADS, attention_window=3), random(2, 100, HIDDEN)
    layer.build((None, None, HIDDEN))
    mask = np.random.default_rng(0).random((2, HEADS, 100, 100)) < 0.8
    for given in (mask, mask[:, :, :1], mask[:, 0], mask[:, 0, 0]):
        specs = tf.TensorSpec([None, None, HIDDEN]), tf.TensorSpec([None] * given.ndim, "bool")
        graph = tf.function(layer, input_signature=specs)
        np.testing.assert_allclose(graph(x, given), layer(x, given), atol=1e-5)


@pytest.mark.parametrize("shape", [(2, HIDDEN), (2, 3, TARGET, HIDDEN)])
def test_sequences_have_rank_3(shape):
    """More axes would be more heads to the mask: positions would see later ones."""
    x, bad = random(2, TARGET, HIDDEN), random(*shape)
    for make, names in (
        (lambda: MultiHeadAttention(HEADS, KEY_DIM), ("query", "value", "key")),
        (lambda: TransformerEncoderLayer(12, HEADS), ("inputs",)),
        (lambda: TransformerDecoderLayer(12, HEADS), ("inputs", "memory")),
    ):
        for number, name in enumerate(names):
            for count in range(number + 1, len(names) + 1):
                tensors = [x] * count
                tensors[number] = bad
                message = f"`{name}` must be .*rank 3.*Received: shape={re.escape(str(shape))}"
                for arguments in (tensors, [keras.KerasTensor(one.shape) for one in tensors]):
                    with pytest.raises(ValueError, match=message):
                        make()(*arguments)


def test_masks_of_padding_fit_their_sequence():
    layer, x, memory = (
        MultiHeadAttention(HEADS, KEY_DIM),
        random(3, 5, HIDDEN),
        random(3, 7, HIDDEN),
    )
    for name, shape in (
        ("query_mask", (3, 7)),
        ("value_mask", (3, 5)),
        ("key_mask", (2, 7)),
        ("value_mask", (3, 1, 7)),
    ):
        with pytest.raises(ValueError, match=f"`{name}` must be a padding mask, .*, length"):
            layer(x, memory, **{name: np.ones(shape, bool)})
    for name, shape in (("query_mask", (1, 5)), ("value_mask", (3, 7)), ("key_mask", (1, 7))):
        assert layer(x, memory, **{name: np.ones(shape, bool)}).shape == x.shape


def test_a_causal_mask_is_a_lower_triangle():
    mask = ops.convert_to_numpy(causal_mask(4))
    np.testing.assert_array_equal(mask[0], np.tril(np.ones((4, 4), bool)))

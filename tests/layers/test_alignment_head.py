"""The head that aligns words, against NumPy."""

import keras
import numpy as np
import pytest

from keras_transformer.layers.alignment_head import AlignmentHead
from keras_transformer.types import LAYER_NORM_EPSILON

RNG = np.random.default_rng(5)
X = RNG.normal(size=(2, 3, 8)).astype("float32")
MEMORY = RNG.normal(size=(2, 5, 6)).astype("float32")
MASK = np.array([[True] * 5, [True, True, True, False, False]])
LINKS = RNG.random((2, 3, 5)).astype("float32") * MASK[:, None]


def make_head(**options):
    head = AlignmentHead(alignment_layer=1, key_dim=4, **options)
    head(X, MEMORY)
    for weight in head.weights:
        weight.assign(RNG.normal(scale=0.3, size=weight.shape))
    return head


def expected_weights(head):
    """The attention of the head in float64."""
    gamma, beta, query, key = (weight.numpy().astype("float64") for weight in head.weights)
    x, memory = X.astype("float64"), MEMORY.astype("float64")
    x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + LAYER_NORM_EPSILON)
    queries = (x * gamma + beta) @ query
    keys = memory @ key
    logits = np.where(MASK[:, None], queries @ keys.swapaxes(1, 2) / 2, -np.inf)
    exponentials = np.exp(logits - logits.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def test_the_weights_are_those_of_one_attention_head():
    head = make_head()
    found = keras.ops.convert_to_numpy(head.attend(X, MEMORY, MASK))
    np.testing.assert_allclose(found, expected_weights(head), atol=1e-5)


def test_the_vectors_pass_unchanged():
    found = make_head()(X, MEMORY, memory_mask=MASK, links=LINKS)
    np.testing.assert_array_equal(keras.ops.convert_to_numpy(found), X)


def test_links_add_their_cross_entropy_to_the_loss():
    head = make_head()
    head(X, MEMORY, memory_mask=MASK)
    assert not head.losses
    head(X, MEMORY, memory_mask=MASK, links=LINKS)
    (loss,) = head.losses
    weights = expected_weights(head)
    expected = -(LINKS * np.log(np.where(MASK[:, None], weights, 1))).sum()
    np.testing.assert_allclose(keras.ops.convert_to_numpy(loss), expected, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["mixed_float16", "mixed_bfloat16"])
def test_small_shares_of_a_batch_keep_their_precision(dtype):
    losses = []
    for share in (1.0, 2e-9):  # float16 would round the second one to 0
        head = AlignmentHead(alignment_layer=1, key_dim=4, dtype=dtype)
        head.build(X.shape, MEMORY.shape)
        for weight in head.weights:
            weight.assign(np.full(weight.shape, 0.1))
        head(X, MEMORY, memory_mask=MASK, links=share * LINKS)
        losses.append(float(keras.ops.convert_to_numpy(head.losses[0])) / share)
    np.testing.assert_allclose(*losses, rtol=1e-5)


def test_a_copy_by_its_configuration_has_the_same_weights():
    head = make_head(layer_norm_epsilon=0.1)
    copy = AlignmentHead.from_config(head.get_config())
    copy(X, MEMORY)
    copy.set_weights(head.get_weights())
    for one, other in zip(*(each.attend(X, MEMORY, MASK) for each in (head, copy)), strict=True):
        np.testing.assert_array_equal(*map(keras.ops.convert_to_numpy, (one, other)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alignment_layer": 0}, "`alignment_layer` must be a positive integer"),
        ({"key_dim": 2.5}, "`key_dim` must be a positive integer"),
    ],
)
def test_bad_arguments_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        AlignmentHead(**{"alignment_layer": 1, "key_dim": 4, **options})


def test_inputs_of_another_rank_are_refused():
    with pytest.raises(ValueError, match="`memory` must be a tensor of rank 3"):
        make_head().attend(X, MEMORY[0])

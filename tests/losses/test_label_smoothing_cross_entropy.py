"""The smoothed loss against tables written out by hand and NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.losses.cross_entropy import smoothed_cross_entropy


def reference(labels, logits, label_smoothing, vocabulary_size=None):
    """Cross entropy with the smoothed target matrix, per token, and its gradient."""
    logits = np.asarray(logits, "float64")
    vocabulary_size = vocabulary_size or logits.shape[-1]
    target = np.full(logits.shape, label_smoothing / (vocabulary_size - 1))
    target[..., vocabulary_size:] = 0
    np.put_along_axis(target, np.asarray(labels)[..., None], 1 - label_smoothing, axis=-1)
    shifted = logits - logits.max(-1, keepdims=True)
    log_softmax = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -(target * log_softmax).sum(-1), np.exp(log_softmax) - target


def random_batch(batch=3, length=5, vocabulary_size=11, scale=3.0):
    rng = np.random.default_rng(7)
    labels = rng.integers(1, vocabulary_size, (batch, length)).astype("int32")
    return labels, rng.normal(scale=scale, size=(batch, length, vocabulary_size)).astype("float32")


def gradient(function, x):
    """d function / d x on the backend in use, compiled but on torch."""
    if keras.backend.backend() == "jax":
        import jax

        return np.asarray(jax.jit(jax.grad(function))(x))
    if keras.backend.backend() == "torch":
        import torch

        x = torch.tensor(x, requires_grad=True)
        return torch.autograd.grad(function(x), x)[0].numpy()
    import tensorflow as tf

    @tf.function
    def compute(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = function(x)
        return tape.gradient(value, x)

    return compute(tf.constant(x)).numpy()


def test_smoothed_targets_of_three_tokens_over_five_words():
    # The gradient is softmax minus target, and the softmax of zeros is 1/5.
    labels = np.array([[0, 2, 4]], "int32")
    targets = 0.2 - gradient(
        lambda logits: ops.sum(smoothed_cross_entropy(ops.convert_to_tensor(labels), logits, 0.1)),
        np.zeros((1, 3, 5), "float32"),
    )
    expected = [
        [0.9, 0.025, 0.025, 0.025, 0.025],
        [0.025, 0.025, 0.9, 0.025, 0.025],
        [0.025, 0.025, 0.025, 0.025, 0.9],
    ]
    np.testing.assert_allclose(targets[0], expected, atol=1e-6)


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
def test_value_and_gradient_of_each_token(label_smoothing):
    labels, logits = random_batch()
    upstream = np.random.default_rng(0).normal(size=labels.shape).astype("float32")
    losses, gradients = reference(labels, logits, label_smoothing)

    def weighted_sum(x):
        ours = smoothed_cross_entropy(labels, x, label_smoothing)
        return ops.sum(ops.multiply(upstream, ours))

    ours = smoothed_cross_entropy(labels, ops.convert_to_tensor(logits), label_smoothing)
    np.testing.assert_allclose(ops.convert_to_numpy(ours), losses, atol=1e-5)
    np.testing.assert_allclose(
        gradient(weighted_sum, logits), upstream[..., None] * gradients, atol=1e-5
    )


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
@pytest.mark.parametrize("vocabulary_size", [9, 11, 16])
def test_padding_of_the_vocabulary_gets_no_share(label_smoothing, vocabulary_size):
    """Of 16 logits the last 7, 5 or 0 are padding: in the softmax, but not in the target."""
    _, logits = random_batch(vocabulary_size=16)
    labels, _ = random_batch(vocabulary_size=vocabulary_size)
    upstream = np.random.default_rng(0).normal(size=labels.shape).astype("float32")
    losses, gradients = reference(labels, logits, label_smoothing, vocabulary_size)
    loss = LabelSmoothingCrossEntropy(label_smoothing, 99, vocabulary_size)
    value = loss(labels, logits, upstream)
    assert float(value) == pytest.approx((upstream * losses).sum(), rel=1e-5)
    ours = gradient(lambda x: loss(labels, x, upstream), logits)
    np.testing.assert_allclose(ours, upstream[..., None] * gradients, atol=1e-5)


def test_smoothed_targets_of_three_tokens_and_two_of_padding():
    loss = LabelSmoothingCrossEntropy(0.1, padding_id=4, vocabulary_size=3)
    targets = 0.2 - gradient(
        lambda logits: loss(np.array([[1]], "int32"), logits), np.zeros((1, 1, 5), "float32")
    )
    np.testing.assert_allclose(targets[0, 0], [0.05, 0.9, 0.05, 0, 0], atol=1e-6)


def test_masked_padding_of_the_vocabulary_changes_nothing():
    labels, logits = random_batch()
    masked = np.concatenate([logits, np.full((*labels.shape, 5), -1e9, "float32")], axis=-1)
    padded = LabelSmoothingCrossEntropy(0.1, vocabulary_size=11)(labels, masked)
    assert float(padded) == pytest.approx(
        float(LabelSmoothingCrossEntropy(0.1)(labels, logits)), rel=1e-6
    )


def test_uniform_logits_cost_the_logarithm_of_the_vocabulary():
    loss = LabelSmoothingCrossEntropy(0.1)
    value = loss(np.array([[3, 1]]), np.zeros((1, 2, 37), "float32"))
    assert float(value) == pytest.approx(np.log(37), rel=1e-6)


def test_large_logits_neither_overflow_nor_lose_the_loss():
    logits = np.array([[[1000.0, 0.0, -1000.0]]], "float32")
    # log-softmax is (0, -1000, -2000): 0.9 * 1000 + 0.05 * 0 + 0.05 * 2000
    assert float(LabelSmoothingCrossEntropy(0.1)(np.array([[1]]), logits)) == pytest.approx(1000)


def test_mean_over_tokens_leaves_padding_out():
    labels, logits = random_batch()
    labels[0, 3:] = 9
    labels[2, 1:] = 9
    losses, _ = reference(labels, logits, 0.1)
    value = LabelSmoothingCrossEntropy(0.1, padding_id=9)(labels, logits)
    assert float(value) == pytest.approx(losses[labels != 9].mean(), rel=1e-6)


def test_a_batch_of_padding_alone_costs_nothing():
    labels, logits = random_batch()
    assert float(LabelSmoothingCrossEntropy()(np.zeros_like(labels), logits)) == 0.0


def test_sample_weights_give_a_plain_weighted_sum():
    labels, logits = random_batch()
    weights = np.random.default_rng(1).uniform(size=labels.shape).astype("float32")
    losses, _ = reference(labels, logits, 0.1)
    value = LabelSmoothingCrossEntropy(0.1)(labels, logits, weights)
    assert float(value) == pytest.approx((weights * losses).sum(), rel=1e-6)


def test_weights_of_the_global_batch_make_parts_add_up_to_the_mean():
    labels, logits = random_batch(batch=4)
    labels[1, 2:] = 0
    weights = ((labels != 0) / (labels != 0).sum()).astype("float32")
    loss = LabelSmoothingCrossEntropy(0.1)
    parts = sum(
        float(loss(labels[i : i + 2], logits[i : i + 2], weights[i : i + 2])) for i in (0, 2)
    )
    assert parts == pytest.approx(float(loss(labels, logits)), rel=1e-6)


@pytest.mark.parametrize("label", [257, 2049, 40_001])
def test_ids_are_never_rounded(label):
    """bfloat16 turns 257 into 256, float16 turns 2049 into 2048."""
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        logits = np.zeros((1, 1, label + 2), "float32")
        logits[0, 0, label] = 5.0
        value = LabelSmoothingCrossEntropy(0.0)(np.array([[label]]), logits)
        expected, _ = reference([[label]], logits, 0.0)
        assert float(value) == pytest.approx(expected[0, 0], rel=1e-5)
        assert keras.backend.standardize_dtype(value.dtype) == "float32"
    finally:
        keras.config.set_dtype_policy("float32")


def test_half_precision_logits_are_summed_in_float32():
    labels = np.array([[1]], "int32")
    logits = ops.zeros((1, 1, 5000), dtype="bfloat16")
    # A sum of 5,000 ones stops at 256 in bfloat16.
    assert float(LabelSmoothingCrossEntropy(0.1)(labels, logits)) == pytest.approx(np.log(5000))


def test_fit_minimizes_the_mean_over_real_tokens():
    """One step of plain gradient descent, with weights, moves the logits by the exact gradient."""
    labels, logits = random_batch(batch=2, length=4, vocabulary_size=6)
    labels[0, 2:] = 0
    inputs = keras.Input((4,), dtype="int32")
    table = keras.layers.Embedding(8, 6, embeddings_initializer="zeros")
    model = keras.Model(inputs, table(inputs))
    table.set_weights([logits.reshape(8, 6)])
    model.compile(keras.optimizers.SGD(1.0), loss=LabelSmoothingCrossEntropy(0.1))
    positions = np.arange(8, dtype="int32").reshape(2, 4)
    weights = ((labels != 0) / (labels != 0).sum()).astype("float32")
    history = model.fit(positions, labels, sample_weight=weights, verbose=0)
    losses, gradients = reference(labels, logits, 0.1)
    assert history.history["loss"][0] == pytest.approx((weights * losses).sum(), rel=1e-5)
    moved = logits.reshape(8, 6) - table.get_weights()[0]
    np.testing.assert_allclose(moved, (weights[..., None] * gradients).reshape(8, 6), atol=1e-6)


def test_config_round_trip():
    loss = LabelSmoothingCrossEntropy(0.2, padding_id=5, vocabulary_size=9, name="smoothed")
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert isinstance(again, LabelSmoothingCrossEntropy)
    assert again.get_config() == loss.get_config()
    assert again.get_config() == {
        "label_smoothing": 0.2,
        "padding_id": 5,
        "vocabulary_size": 9,
        "name": "smoothed",
    }


@pytest.mark.parametrize("value", [1.0, -0.1, "0.1", True])
def test_a_rate_outside_its_range_is_refused(value):
    with pytest.raises(ValueError, match="`label_smoothing` must be a number in"):
        LabelSmoothingCrossEntropy(value)


@pytest.mark.parametrize("value", [0, 1, -8, 8.0, "8", True])
def test_a_vocabulary_without_other_tokens_is_refused(value):
    with pytest.raises(ValueError, match="`vocabulary_size` must be .* integer"):
        LabelSmoothingCrossEntropy(vocabulary_size=value)


def test_a_vocabulary_larger_than_the_logits_is_refused():
    labels, logits = random_batch()
    message = r"at least `vocabulary_size` values .* vocabulary_size=12, .* \(3, 5, 11\)"
    with pytest.raises(ValueError, match=message):
        LabelSmoothingCrossEntropy(vocabulary_size=12)(labels, logits)


def test_a_single_logit_is_refused():
    with pytest.raises(ValueError, match=r"`logits` must have .* and 2\. .* \(1, 3, 1\)"):
        LabelSmoothingCrossEntropy()(np.zeros((1, 3), "int32"), np.zeros((1, 3, 1), "float32"))


def test_a_padding_id_below_zero_is_refused():
    with pytest.raises(ValueError, match="`padding_id` must be an integer >= 0"):
        LabelSmoothingCrossEntropy(padding_id=-1)


def test_weights_of_sentences_are_refused():
    labels, logits = np.ones((2, 2), "int32"), np.zeros((2, 2, 4), "float32")
    with pytest.raises(ValueError, match="must have a weight for each token"):
        LabelSmoothingCrossEntropy()(labels, logits, np.array([1.0, 0.0]))

"""The smoothed loss against tables written out by hand and NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.losses import LabelSmoothingCrossEntropy, smoothed_cross_entropy
from keras_transformer.metrics import Perplexity, StepLoss, TokenAccuracy, TokenLoss
from tests.models.compiled_function import by_xla


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
    loss = LabelSmoothingCrossEntropy(label_smoothing, 99, vocabulary_size, reduction="sum")
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


# What `fit` may get as `sample_weight` for the batch of `padded_batch`, and how much each counts.
WEIGHTS = {
    "none": lambda real: None,
    "ones": lambda real: np.ones(real.shape),
    "mask": lambda real: real,
    "shares": lambda real: real / real.sum(),
    "tokens": lambda real: np.linspace(0.5, 3.0, real.size).reshape(real.shape),
    "tokens-and-one": lambda real: np.linspace(0.5, 3.0, real.size).reshape((*real.shape, 1)),
    "sentences": lambda real: np.array([0.5, 2.0, 3.0]),
    "sentences-and-one": lambda real: np.array([[0.5], [2.0], [3.0]]),
    "one-for-all": lambda real: np.array(7.0),
    "some": lambda real: np.arange(real.size).reshape(real.shape) % 2,
}


def padded_batch():
    labels, logits = random_batch()
    labels[0, 3:] = 0
    labels[2, 1:] = 0
    return labels, logits


def weights_of_tokens(labels, weights):
    """The weight of each token, padding 0, in float64."""
    weights = np.asarray(1.0 if weights is None else weights, "float64")
    if weights.ndim == 3:
        weights = weights[..., 0]
    if weights.ndim == 1:
        weights = weights[:, None]
    return weights * (labels != 0)


@pytest.mark.parametrize("name", WEIGHTS)
@pytest.mark.parametrize(
    "reduction", ["mean_with_sample_weight", "mean", "sum_over_batch_size", "sum", "none", None]
)
def test_weighted_losses(name, reduction):
    labels, logits = padded_batch()
    weights = WEIGHTS[name](labels != 0)
    losses, _ = reference(labels, logits, 0.1)
    per_token = weights_of_tokens(labels, weights)
    total = (per_token * losses).sum()
    expected = {
        "mean_with_sample_weight": total / per_token.sum(),
        "mean": total / (labels != 0).sum(),
        "sum_over_batch_size": total / (labels != 0).sum(),
        "sum": total,
    }.get(reduction, per_token * losses)
    loss = LabelSmoothingCrossEntropy(0.1, reduction=reduction)
    value = ops.convert_to_numpy(loss(labels, logits, weights))
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    value = ops.convert_to_numpy(
        loss(y_true=labels[..., None], y_pred=logits, sample_weight=weights)
    )
    np.testing.assert_allclose(value, expected, rtol=1e-6)


def test_the_default_is_the_weighted_mean():
    assert LabelSmoothingCrossEntropy().reduction == "mean_with_sample_weight"


@pytest.mark.parametrize("name", WEIGHTS)
def test_gradients_are_those_of_the_weighted_mean_and_zero_at_padding(name):
    labels, logits = padded_batch()
    weights = WEIGHTS[name](labels != 0)
    per_token = weights_of_tokens(labels, weights)
    expected = per_token[..., None] / per_token.sum() * reference(labels, logits, 0.1)[1]
    loss = LabelSmoothingCrossEntropy(0.1)
    found = gradient(lambda x: loss(labels, x, weights), logits)
    np.testing.assert_allclose(found, expected, atol=1e-7)
    assert (found[per_token == 0] == 0).all()


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32"])
def test_odd_labels_of_weight_0_change_nothing(dtype):
    labels, logits = padded_batch()
    odd = labels.astype(dtype)
    odd[0, 0], odd[0, 3:], odd[2, 1:] = -1, [10**6, -100], 11
    weights = np.where((odd == labels) & (labels != 0), 2.0, 0.0)
    losses, gradients = reference(labels, logits, 0.1)
    mean = weights / weights.sum()
    loss = LabelSmoothingCrossEntropy(0.1)
    assert float(loss(odd, logits, weights)) == pytest.approx((mean * losses).sum(), rel=1e-6)
    found = gradient(lambda x: loss(odd, x, weights), logits)
    np.testing.assert_allclose(found, mean[..., None] * gradients, atol=1e-7)
    assert (found[weights == 0] == 0).all()


@pytest.mark.parametrize(
    ("label", "vocabulary_size"), [(-1, None), (11, None), (10**6, None), (9, 9), (1.5, None)]
)
def test_a_real_label_outside_of_the_vocabulary(label, vocabulary_size):
    """It is refused where its value is known; a graph has NaN, in the gradients too."""
    labels, logits = padded_batch()
    labels = np.minimum(labels, 8).astype("float32" if label == 1.5 else "int32")
    labels[1, 1] = label
    loss = LabelSmoothingCrossEntropy(0.1, vocabulary_size=vocabulary_size)
    message = f"`y_true` must have ids of the vocabulary, 0 to {(vocabulary_size or 11) - 1}, at .*"
    with pytest.raises(ValueError, match=f"{message} Received: id={label}"):
        loss(labels, logits)
    if keras.backend.backend() == "torch":  # which has no graph here
        return
    assert np.isnan(gradient(lambda x: loss(labels, x), logits)).any()
    assert np.isnan(by_xla(loss)(labels, logits))


def test_a_compiled_loss_is_the_same():
    labels, logits = padded_batch()
    weights = np.array([0.5, 2.0, 3.0], "float32")
    loss = LabelSmoothingCrossEntropy(0.1)
    value = float(by_xla(loss)(labels, logits, weights))
    assert value == pytest.approx(float(loss(labels, logits, weights)), rel=1e-6)


def test_weights_of_the_global_batch_make_parts_add_up_to_the_mean():
    labels, logits = random_batch(batch=4)
    labels[1, 2:] = 0
    weights = ((labels != 0) / (labels != 0).sum()).astype("float32")
    loss = LabelSmoothingCrossEntropy(0.1, reduction="sum")
    parts = sum(
        float(loss(labels[i : i + 2], logits[i : i + 2], weights[i : i + 2])) for i in (0, 2)
    )
    mean = LabelSmoothingCrossEntropy(0.1)(labels, logits)
    assert parts == pytest.approx(float(mean), rel=1e-6)


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


@pytest.mark.parametrize("name", ["none", "ones", "mask", "tokens-and-one", "sentences"])
def test_fit_and_evaluate_have_the_mean_over_real_tokens(name):
    """One step of plain gradient descent moves the logits by the exact gradient."""
    labels, logits = padded_batch()
    inputs = keras.Input((5,), dtype="int32")
    table = keras.layers.Embedding(15, 11, embeddings_initializer="zeros")
    model = keras.Model(inputs, table(inputs))
    table.set_weights([logits.reshape(15, 11)])
    model.compile(
        keras.optimizers.SGD(1.0),
        loss=LabelSmoothingCrossEntropy(0.1),
        weighted_metrics=[
            StepLoss(LabelSmoothingCrossEntropy(0.1)),
            TokenLoss(LabelSmoothingCrossEntropy(0.1)),
            Perplexity(),
            TokenAccuracy(),
        ],
    )
    positions = np.arange(15, dtype="int32").reshape(3, 5)
    weights = WEIGHTS[name](labels != 0)
    y = labels[..., None] if name == "tokens-and-one" else labels
    data = {"y": y, "sample_weight": weights}
    losses, gradients = reference(labels, logits, 0.1)
    shares = weights_of_tokens(labels, weights)
    shares /= shares.sum()
    likelihoods, _ = reference(labels, logits, 0.0)
    expected = {
        "loss": (shares * losses).sum(),
        "step_loss": (shares * losses).sum(),
        "token_loss": (shares * losses).sum(),
        "perplexity": np.exp((shares * likelihoods).sum()),
        "accuracy": (shares * (logits.argmax(-1) == labels)).sum(),
    }
    found = model.evaluate(positions, **data, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-6)
    history = model.fit(positions, **data, verbose=0).history
    assert {name: values[0] for name, values in history.items()} == pytest.approx(
        expected, rel=1e-6
    )
    moved = logits.reshape(15, 11) - table.get_weights()[0]
    np.testing.assert_allclose(moved, (shares[..., None] * gradients).reshape(15, 11), atol=1e-6)
    assert (moved[(shares == 0).ravel()] == 0).all()


def test_double_precision():
    labels, logits = padded_batch()
    loss = LabelSmoothingCrossEntropy(0.1, dtype="float64")
    assert loss.dtype == "float64"
    losses, _ = reference(labels, logits, 0.1)
    # JAX has no float64 by default, and Keras's operations narrow it on torch.
    is_double = keras.backend.backend() == "tensorflow"
    value = float(loss(labels, logits))
    assert value == pytest.approx(losses[labels != 0].mean(), rel=1e-12 if is_double else 1e-6)


def test_config_round_trip():
    loss = LabelSmoothingCrossEntropy(
        0.2, padding_id=5, vocabulary_size=9, name="smoothed", reduction="sum", dtype="float64"
    )
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert isinstance(again, LabelSmoothingCrossEntropy)
    assert again.get_config() == loss.get_config()
    assert again.get_config() == {
        "label_smoothing": 0.2,
        "padding_id": 5,
        "vocabulary_size": 9,
        "name": "smoothed",
        "reduction": "sum",
        "dtype": "float64",
    }


def test_configs_without_a_reduction_keep_their_values():
    """Earlier versions had none: a mean without weights, and a sum with those of the package."""
    old = {"label_smoothing": 0.1, "padding_id": 0, "vocabulary_size": None, "name": "old"}
    loss = LabelSmoothingCrossEntropy.from_config(old)
    labels, logits = padded_batch()
    weights = (labels != 0) / (labels != 0).sum()
    losses, _ = reference(labels, logits, 0.1)
    earlier = (weights * losses).sum()
    assert float(loss(labels, logits, weights)) == pytest.approx(earlier, rel=1e-6)
    assert float(loss(labels, logits)) == pytest.approx(losses[labels != 0].mean(), rel=1e-6)


WRONG = {
    "label_smoothing": (" must be a number in", [1.0, -0.1, "0.1", True]),
    "vocabulary_size": (" must be .* integer", [0, 1, -8, 8.0, "8", True]),
    "padding_id": (" must be an integer >= 0", [-1]),
    "reduction": ("", ["average", "sum_over_tokens", True]),
    "dtype": (" must be float32", ["float16", "bfloat16", keras.DTypePolicy("mixed_float16")]),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_arguments_are_named(name):
    rule, values = WRONG[name]
    for value in values:
        with pytest.raises(ValueError, match=f"`{name}`{rule}"):
            LabelSmoothingCrossEntropy(**{name: value})


def test_a_vocabulary_larger_than_the_logits_is_refused():
    labels, logits = random_batch()
    message = r"at least `vocabulary_size` values .* shape=\(3, 5, 11\), vocabulary_size=12"
    with pytest.raises(ValueError, match=message):
        LabelSmoothingCrossEntropy(vocabulary_size=12)(labels, logits)


def test_a_single_logit_is_refused():
    with pytest.raises(ValueError, match=r"`y_pred` must have .* and 2\. .*\(1, 3, 1\)"):
        LabelSmoothingCrossEntropy()(np.zeros((1, 3), "int32"), np.zeros((1, 3, 1), "float32"))


@pytest.mark.parametrize("shape", [(2,), (4,), (3, 4), (2, 5), (3, 5, 2)])
def test_weights_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match="`sample_weight` must have a weight for each token"):
        LabelSmoothingCrossEntropy()(*random_batch(), np.ones(shape))


@pytest.mark.parametrize("shape", [(3,), (3, 4), (2, 5), (1, 5), (3, 5, 11), (3, 5, 1, 1)])
def test_labels_of_another_shape_are_refused(shape):
    with pytest.raises(ValueError, match=r"`y_true` must be \(batch, length\) or"):
        LabelSmoothingCrossEntropy()(np.ones(shape, "int32"), random_batch()[1])

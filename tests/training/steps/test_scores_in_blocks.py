"""Scores and gradients in one pass over blocks of tokens, against NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import Perplexity, StepLoss, TokenAccuracy, TokenLoss
from keras_transformer.training import step_sums
from tests.losses.test_label_smoothing_cross_entropy import reference
from tests.models.compiled_function import by_xla

pytestmark = pytest.mark.skipif(
    keras.backend.backend() == "torch", reason="training is on TensorFlow and JAX"
)
VOCABULARY_SIZE, HIDDEN_DIM = 11, 6


@pytest.fixture(params=[4, 1000])
def block_tokens(request, monkeypatch):
    """Most tokens of a block; the batch has 15."""
    monkeypatch.setattr(step_sums, "BLOCK_BYTES", request.param * 4 * VOCABULARY_SIZE)


def batch(has_bias=True):
    """Labels with padding, weights with zeros, and what the logits are computed from."""
    rng = np.random.default_rng(5)
    labels = rng.integers(1, 9, (3, 5)).astype("int32")
    labels[0, 3:] = 0
    weights = rng.random((3, 5)).astype("float32")
    weights[2, 1] = 0
    shapes = [(3, 5, HIDDEN_DIM), (HIDDEN_DIM, VOCABULARY_SIZE), (VOCABULARY_SIZE,)]
    parameters = [rng.normal(size=shape).astype("float32") for shape in shapes]
    return labels, weights, parameters if has_bias else parameters[:2]


def scored(loss, labels, weights, parameters, **options):
    """What a function of scores gives; that of the loss's sum is its gradients."""
    parameters = [ops.convert_to_tensor(each) for each in parameters]
    return step_sums.scores_in_blocks(loss, labels, weights, *parameters, **options)


def gradients(function, parameters):
    """d function / d each parameter, compiled by the backend in use."""
    if keras.backend.backend() == "jax":
        import jax

        places = tuple(range(len(parameters)))
        return [np.asarray(each) for each in jax.jit(jax.grad(function, places))(*parameters)]
    import tensorflow as tf

    @tf.function
    def compute(*parameters):
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = function(*parameters)
        return tape.gradient(value, parameters)

    return [each.numpy() for each in compute(*map(tf.constant, parameters))]


def expected(labels, per_token, parameters, label_smoothing, vocabulary_size):
    """The losses, and the gradients of their weighted sum by the parameters."""
    hidden, matrix, *bias = (np.asarray(each, "float64") for each in parameters)
    logits = hidden @ matrix + (bias[0] if bias else 0)
    losses, by_logits = reference(labels, logits, label_smoothing, vocabulary_size)
    by_logits = per_token[..., None] * by_logits
    found = [by_logits @ matrix.T, np.einsum("bld,blv->dv", hidden, by_logits)]
    return logits, losses, [*found, by_logits.sum((0, 1))][: len(parameters)]


@pytest.mark.core
@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(
    ("label_smoothing", "vocabulary_size"), [(0.0, None), (0.1, None), (0.1, 9)]
)
def test_values_and_gradients(block_tokens, has_bias, label_smoothing, vocabulary_size):
    labels, weights, parameters = batch(has_bias)
    loss = LabelSmoothingCrossEntropy(
        label_smoothing, vocabulary_size=vocabulary_size, reduction="sum"
    )
    per_token = weights * (labels != 0)
    logits, losses, by_parameters = expected(
        labels, per_token, parameters, label_smoothing, vocabulary_size
    )
    likelihoods, _ = reference(labels, logits, 0.0)
    margins = np.take_along_axis(logits, labels[..., None], -1)[..., 0] - logits.max(-1)
    for needs_gradient in (False, True):
        scores = scored(loss, labels, weights, parameters, needs_gradient=needs_gradient)
        assert scores.shape == (3, 5, VOCABULARY_SIZE)
        for ours, theirs in zip(scores.values, (losses, likelihoods, margins), strict=True):
            np.testing.assert_allclose(ops.convert_to_numpy(ours), theirs, rtol=1e-5, atol=1e-5)
    found = gradients(
        lambda *given: 3 * loss(labels, scored(loss, labels, weights, given), weights), parameters
    )
    for ours, theirs in zip(found, by_parameters, strict=True):
        np.testing.assert_allclose(ours, 3 * theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.core
@pytest.mark.parametrize("weights", [None, np.array([0.5, 2.0, 3.0], "float32")])
@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "mean", "sum"])
def test_the_loss_and_the_metrics_are_those_of_the_logits(block_tokens, reduction, weights):
    labels, _, parameters = batch()
    logits = parameters[0] @ parameters[1] + parameters[2]
    loss = LabelSmoothingCrossEntropy(0.1, reduction=reduction)
    plain = LabelSmoothingCrossEntropy(0.0, reduction=reduction)
    scores = scored(loss, labels, weights, parameters)
    assert float(loss(labels, scores, weights)) == pytest.approx(
        float(loss(labels, logits, weights)), rel=1e-5
    )
    makes = (Perplexity, TokenAccuracy, lambda: TokenLoss(loss), lambda: StepLoss(plain))
    for make in makes:
        for of_metric in (None, weights):  # as `metrics` and as `weighted_metrics`
            expected = float(make()(labels, logits, of_metric))
            assert float(make()(labels, scores, of_metric)) == pytest.approx(expected, rel=1e-5)
    plain_path = gradients(
        lambda hidden, matrix, bias: loss(labels, hidden @ matrix + bias, weights), parameters
    )
    found = gradients(
        lambda *given: loss(labels, scored(loss, labels, weights, given), weights), parameters
    )
    for ours, theirs in zip(found, plain_path, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.core
@pytest.mark.parametrize(
    ("label", "vocabulary_size"), [(-1, None), (11, None), (9, 9), (1.5, None)]
)
def test_a_real_label_outside_of_the_vocabulary(label, vocabulary_size):
    labels, weights, parameters = batch()
    labels = labels.astype("float32" if label == 1.5 else "int32")
    labels[1, 1] = label
    loss = LabelSmoothingCrossEntropy(0.1, vocabulary_size=vocabulary_size, reduction="sum")
    with pytest.raises(ValueError, match=f"`y_true` must have ids of .* Received: id={label}"):
        scored(loss, labels, weights, parameters)

    @by_xla
    def value(labels, weights, *given):
        return loss(labels, scored(loss, labels, weights, given), weights)

    assert np.isnan(value(labels, weights, *parameters))
    weights[1, 1] = 0
    assert np.isfinite(value(labels, weights, *parameters))


@pytest.mark.parametrize(("on_gpu", "number"), [(False, 3), (True, 1)])
def test_accelerators_have_larger_blocks(on_gpu, number, monkeypatch):
    monkeypatch.setattr(step_sums, "has_accelerator", lambda: on_gpu)
    blocks = step_sums._Blocks(np.zeros((10, 100, 1)), 100_000)  # 400 MB of logits
    assert (blocks.number, blocks.size) == (number, -(-1000 // number))


@pytest.mark.core
def test_sums_over_blocks_are_float32(monkeypatch):
    """In bfloat16 a sum of gradients of 400 blocks, all of one sign, stands still."""
    monkeypatch.setattr(step_sums, "BLOCK_BYTES", 1)
    labels = np.ones((1, 400), "int32")
    low = [ops.ones((1, 400, 2), dtype="bfloat16"), ops.zeros((2, 4), dtype="bfloat16")]
    loss = LabelSmoothingCrossEntropy(0.0, reduction="sum")
    _, by_matrix = gradients(lambda *given: loss(labels, scored(loss, labels, None, given)), low)
    expected = np.tile([100.0, -300.0, 100.0, 100.0], (2, 1))
    np.testing.assert_allclose(by_matrix.astype("float32"), expected, rtol=2**-8)


@pytest.mark.core
def test_the_scale_of_the_loss_keeps_small_gradients():
    """A weight of 1e-9 is 0 in float16."""
    labels, weights, parameters = batch(has_bias=False)
    low = [each.astype("float16") for each in parameters]
    loss = LabelSmoothingCrossEntropy(0.1, reduction="sum")
    weights, scale = weights * 1e-9, 2.0**30

    def scaled(*given):
        return scale * loss(labels, scored(loss, labels, weights, given, scale=scale), weights)

    *_, (_, by_matrix) = expected(labels, weights * (labels != 0), low, 0.1, None)
    np.testing.assert_allclose(gradients(scaled, low)[1], scale * by_matrix, rtol=0.02, atol=0.01)

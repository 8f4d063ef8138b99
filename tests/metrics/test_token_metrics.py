"""Perplexity, accuracy and losses over tokens, against NumPy in float64."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import (
    Perplexity,
    StepLoss,
    TokenAccuracy,
    TokenLoss,
    training_metrics,
)
from tests.losses.test_cross_entropy import log_softmax

METRICS = {
    "perplexity": lambda: Perplexity(padding_id=2),
    "accuracy": lambda: TokenAccuracy(padding_id=2),
    "token_loss": lambda: TokenLoss(LabelSmoothingCrossEntropy(0.3, padding_id=2), padding_id=2),
    "step_loss": lambda: StepLoss(LabelSmoothingCrossEntropy(0.3, padding_id=2)),
}


def batches():
    """Two batches of different shapes, about half of it padding."""
    rng = np.random.default_rng(3)
    for batch, length in ((4, 3), (2, 9)):
        labels = rng.integers(0, 7, (batch, length)).astype("int32")
        labels[0, 1:] = 0
        yield labels, rng.normal(scale=2, size=(batch, length, 7)).astype("float32")


def values_of(name, labels, logits):
    """What a metric is the mean of, for each token."""
    if name == "accuracy":
        return logits.argmax(-1) == labels
    scores = log_softmax(logits.astype("float64"))
    likelihoods = -np.take_along_axis(scores, labels[..., None], -1)[..., 0]
    others = -scores.sum(-1) - likelihoods
    return likelihoods if name == "perplexity" else 0.7 * likelihoods + 0.05 * others


def after_batches(metric):
    for labels, logits in batches():
        metric.update_state(labels, logits)
    return float(metric.result())


@pytest.mark.parametrize("name", ["perplexity", "accuracy", "token_loss"])
def test_the_mean_is_over_tokens_not_over_batches(name):
    values = [values_of(name, y, x)[y != 2] for y, x in batches()]
    mean = np.concatenate(values).mean()
    assert abs(np.mean([each.mean() for each in values]) - mean) > 1e-3  # they tell the two apart
    expected = np.exp(mean) if name == "perplexity" else mean
    assert after_batches(METRICS[name]()) == pytest.approx(expected, rel=1e-5)


def test_perplexity_of_uniform_logits_is_the_vocabulary_size():
    assert float(Perplexity()(np.array([[1, 2]]), np.zeros((1, 2, 40)))) == pytest.approx(40)


def test_step_loss_is_that_of_the_last_step():
    loss = LabelSmoothingCrossEntropy(0.3)
    *_, (labels, logits) = batches()
    assert after_batches(StepLoss(loss)) == pytest.approx(float(loss(labels, logits)), rel=1e-6)


def test_step_loss_takes_the_weights_of_the_data():
    loss = LabelSmoothingCrossEntropy(0.3)
    labels, logits = next(batches())
    weights = np.linspace(0, 1, labels.size, dtype="float32").reshape(labels.shape)
    expected = float(loss(labels, logits, weights))
    assert expected != pytest.approx(float(loss(labels, logits)))
    assert float(StepLoss(loss)(labels, logits, weights)) == pytest.approx(expected, rel=1e-6)


def test_step_loss_adds_up_the_slices_of_a_step():
    loss = LabelSmoothingCrossEntropy(0.3)
    metric, slices = StepLoss(loss), list(batches())
    metric(*slices[0])
    with metric.sum_of_updates():
        for labels, logits in slices:
            metric(labels, logits)
    expected = sum(float(loss(labels, logits)) for labels, logits in slices)
    assert float(metric.result()) == pytest.approx(expected, rel=1e-6)
    assert float(metric(*slices[0])) == pytest.approx(float(loss(*slices[0])), rel=1e-6)


@pytest.mark.parametrize("name", ["perplexity", "accuracy", "token_loss"])
def test_padding_changes_nothing(name):
    labels, logits = next(batches())
    labels = labels % 2 + 3
    padded_labels = np.pad(labels, ((0, 2), (0, 5)), constant_values=2)
    padded_logits = np.pad(logits, ((0, 2), (0, 5), (0, 0)), constant_values=9.0)
    alone, padded = METRICS[name](), METRICS[name]()
    expected = float(alone(labels, logits))
    assert float(padded(padded_labels, padded_logits)) == pytest.approx(expected, rel=1e-6)


def test_weights_count_tokens_by_their_weight():
    labels = np.array([[1, 1]])
    logits = np.log(np.array([[[0.5, 0.5], [0.9, 0.1]]]))
    weighted = Perplexity(padding_id=9)(labels, logits, np.array([[1.0, 3.0]]))
    assert float(weighted) == pytest.approx((2 * 10**3) ** 0.25, rel=1e-5)


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("kind", ["none", "ones", "mask", "sentences", "tokens"])
def test_weighted_means(name, kind):
    labels, logits = next(batches())
    is_real = labels != 2
    weights = {
        "none": None,
        "ones": np.ones(labels.shape),
        "mask": is_real,
        "sentences": np.array([0.5, 2.0, 3.0, 0.0]),
        "tokens": np.linspace(0.5, 3.0, labels.size).reshape(labels.shape),
    }[kind]
    if kind == "sentences":
        per_token = weights[:, None] * is_real
    else:
        per_token = is_real * (1.0 if weights is None else weights)
    mean = (values_of(name, labels, logits) * per_token).sum() / per_token.sum()
    expected = np.exp(mean) if name == "perplexity" else mean
    metric = METRICS[name]()
    metric.update_state(y_true=labels, y_pred=logits, sample_weight=weights)
    assert float(metric.result()) == pytest.approx(expected, rel=2e-6)
    metric.reset_state()
    metric.update_state(y_true=labels[..., None], y_pred=logits, sample_weight=weights)
    assert float(metric.result()) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize("name", METRICS)
def test_labels_that_do_not_count_may_be_any(name):
    labels, logits = next(batches())
    odd, weights = labels.copy(), np.ones(labels.shape)
    places = ([0, 1, 2], [0, 1, 2])
    odd[places], weights[places] = [-1, 7, 10**6], 0
    expected = float(METRICS[name]()(labels, logits, weights))
    assert float(METRICS[name]()(odd, logits, weights)) == expected
    with pytest.raises(ValueError, match=r"`y_true` must have ids .* 0 to 6, .* Received: id=-1"):
        METRICS[name]()(odd, logits)


@pytest.mark.parametrize("make", METRICS.values(), ids=METRICS)
def test_nothing_seen_and_reset(make):
    metric = make()
    fresh = float(metric.result())
    assert fresh == (1.0 if isinstance(metric, Perplexity) else 0.0)
    labels, logits = next(batches())
    metric.update_state(labels, logits)
    assert float(metric.result()) != fresh
    metric.reset_state()
    assert float(metric.result()) == fresh


@pytest.mark.parametrize("make", METRICS.values(), ids=METRICS)
def test_ids_and_sums_under_a_half_precision_policy(make):
    labels = np.full((1, 300), 2049, "int32")  # 2048 in bfloat16 and in float16
    logits = np.zeros((1, 300, 2051), "float32")
    logits[..., 2049] = 8.0
    expected = float(make()(labels, logits))
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        metric = make()
        assert float(metric(labels, logits)) == expected
        assert {variable.dtype for variable in metric.variables} == {"float32"}
    finally:
        keras.config.set_dtype_policy("float32")


@pytest.mark.parametrize("make", METRICS.values(), ids=METRICS)
def test_stateless_update_equals_the_update(make):
    labels, logits = next(batches())
    metric = make()
    zeros = [ops.zeros(variable.shape) for variable in metric.variables]
    variables = metric.stateless_update_state(zeros, labels, logits)
    stateless = float(metric.stateless_result(variables))
    metric.update_state(labels, logits)
    assert stateless == float(metric.result())


@pytest.mark.parametrize("make", METRICS.values(), ids=METRICS)
def test_config_round_trip(make):
    metric = make()
    again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(metric))
    assert type(again) is type(metric)
    assert again.get_config() == metric.get_config()
    labels, logits = next(batches())
    assert float(again(labels, logits)) == float(metric(labels, logits))


def test_what_is_not_of_tokens_is_refused():
    with pytest.raises(ValueError, match="`padding_id` must be an integer >= 0"):
        Perplexity(padding_id=-100)
    labels, logits = np.ones((2, 2), "int32"), np.zeros((2, 2, 4), "float32")
    with pytest.raises(ValueError, match="must have a weight for each token"):
        Perplexity().update_state(labels, logits, np.ones(3))


@pytest.mark.parametrize("make", [Perplexity, TokenAccuracy, TokenLoss, StepLoss])
def test_dtypes(make):
    loss = [LabelSmoothingCrossEntropy()] if make in (TokenLoss, StepLoss) else []
    metric = make(*loss, dtype="float64")
    assert metric.dtype == metric.get_config()["dtype"] == "float64"
    assert {variable.dtype for variable in metric.variables} == {"float64"}
    metric.update_state(*next(batches()))
    with pytest.raises(ValueError, match=r"`dtype` must be float32 or float64.* dtype='bfloat16'"):
        make(*loss, dtype="bfloat16")


def test_metrics_of_a_training_reduce_as_its_loss():
    for reduction in ("sum", "mean_with_sample_weight"):
        loss = LabelSmoothingCrossEntropy(0.3, reduction=reduction)
        plain = LabelSmoothingCrossEntropy(0.0, reduction=reduction)
        labels, logits = next(batches())
        *_, step_nll = training_metrics(loss)["weighted_metrics"]
        assert float(step_nll(labels, logits)) == float(plain(labels, logits))

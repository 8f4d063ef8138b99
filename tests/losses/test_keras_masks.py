"""Losses and metrics honour the Keras mask of the predictions, as Keras's own do."""

import keras
import numpy as np
import pytest

from keras_transformer import losses, metrics
from keras_transformer.layers import PositionalEmbedding, TransformerEncoderLayer

pytestmark = pytest.mark.core

IDS = np.array([[5, 3, 0, 0], [2, 0, 6, 1]], "int32")
LABELS = np.array([[1, 2, 3, 4], [5, 6, 4, 0]], "int32")  # of masked tokens too; one is padding
WEIGHTS = np.array([[1.0, 2.0, 5.0, 1.0], [0.5, 1.0, 3.0, 1.0]], "float32")
MASK = IDS != 0
EMBEDDINGS = {
    "keras": lambda: keras.layers.Embedding(7, 8, mask_zero=True),
    "ours": lambda: PositionalEmbedding(7, 8, mask_id=0),
}


def tagger(embedding="keras"):
    keras.utils.set_random_seed(3)
    ids = keras.Input((None,), dtype="int32")
    hidden = TransformerEncoderLayer(16, 2)(EMBEDDINGS[embedding]()(ids))
    return keras.Model(ids, keras.layers.Dense(7)(hidden))


def evaluated(model, *data, **options):
    model.compile("sgd", **options)
    return model.evaluate(*data, verbose=0, return_dict=True)


def means(model, weights):
    """The weighted means over the tokens that are neither masked nor padding, in float64."""
    logits = keras.ops.convert_to_numpy(model(IDS)).astype("float64")
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    nll = -np.take_along_axis(log_probs, LABELS[..., None], -1)[..., 0]
    weights = weights * (LABELS != 0) * MASK
    return {
        "loss": (nll * weights).sum() / weights.sum(),
        "perplexity": np.exp((nll * weights).sum() / weights.sum()),
        "accuracy": ((logits.argmax(-1) == LABELS) * weights).sum() / weights.sum(),
    }


@pytest.mark.parametrize("embedding", EMBEDDINGS)
def test_a_loss_is_that_of_keras(embedding):
    model, labels = tagger(embedding), np.maximum(LABELS, 1)  # Keras's loss knows no padding
    ours = evaluated(model, IDS, labels, loss=losses.LabelSmoothingCrossEntropy(0.0))
    theirs = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    assert ours["loss"] == pytest.approx(evaluated(model, IDS, labels, loss=theirs)["loss"], 1e-5)


@pytest.mark.parametrize("reduction", ["mean_with_sample_weight", "mean", "sum", "none"])
def test_masks_padding_and_weights_apply_together(reduction):
    model = tagger()
    found = losses.LabelSmoothingCrossEntropy(0.0, reduction=reduction)(LABELS, model(IDS), WEIGHTS)
    total = WEIGHTS * (LABELS != 0) * MASK
    count = {"mean": (MASK & (LABELS != 0)).sum(), "mean_with_sample_weight": total.sum()}
    expected = means(model, WEIGHTS)["loss"] * total.sum() / count.get(reduction, 1)
    assert float(keras.ops.sum(found)) == pytest.approx(expected, 1e-5)


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_are_means_over_the_tokens_that_are_seen(weighted):
    model, loss = tagger(), losses.LabelSmoothingCrossEntropy(0.0)
    kinds = [
        metrics.Perplexity(name="perplexity"),
        metrics.TokenAccuracy(name="accuracy"),
        metrics.TokenLoss(loss, name="token_loss"),
    ]
    options = {"weighted_metrics" if weighted else "metrics": kinds}
    model.compile("sgd", loss, **options)
    found = model.evaluate(
        IDS, LABELS, sample_weight=WEIGHTS if weighted else None, verbose=0, return_dict=True
    )
    expected = means(model, WEIGHTS if weighted else 1)
    assert found["perplexity"] == pytest.approx(expected["perplexity"], 1e-5)
    assert found["accuracy"] == pytest.approx(expected["accuracy"], 1e-5)
    assert found["token_loss"] == pytest.approx(expected["loss"], 1e-5)


def test_a_hidden_token_has_no_gradient_and_may_have_any_label():
    model = tagger()
    model.compile(keras.optimizers.SGD(0.1), losses.LabelSmoothingCrossEntropy(0.1))
    start, after = model.get_weights(), []
    for label in (1, -7):
        model.set_weights(start)
        model.train_on_batch(IDS, np.where(MASK, LABELS, label))
        after.append(model.get_weights())
    for one, other in zip(*after, strict=True):
        np.testing.assert_array_equal(one, other)


def test_arrays_and_lists_have_no_mask():
    loss, logits = losses.LabelSmoothingCrossEntropy(0.0), np.zeros((2, 4, 7), "float32")
    found = [float(loss(LABELS.tolist(), each)) for each in (logits, logits.tolist())]
    assert found == pytest.approx([np.log(7)] * 2)

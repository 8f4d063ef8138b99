"""Steps without whole logits take the same updates and give the same values as steps with them."""

import keras
import numpy as np
import pytest

from keras_transformer import losses, metrics, optimizers, training
from keras_transformer.layers import PositionalEmbedding, TransformerDecoderLayer
from keras_transformer.losses import TokenScores
from keras_transformer.models import Transformer, build_transformer
from keras_transformer.training import step_sums

pytestmark = pytest.mark.core
VOCABULARY_SIZE = 24
CASES = {
    # name: (accumulate, options of the model, loss's reduction)
    "tied": (1, {}, "sum"),
    "mean": (1, {"use_logits_bias": True}, "mean_with_sample_weight"),
    "slices": (2, {"source_vocabulary_size": 9, "tie_weights": False}, "sum"),
    "bfloat16": (1, {"dtype": "mixed_bfloat16"}, "sum"),
    "float16": (2, {"dtype": "mixed_float16"}, "sum"),
}


@pytest.fixture(autouse=True)
def blocks_of_five_tokens(monkeypatch):
    monkeypatch.setattr(step_sums, "BLOCK_BYTES", 5 * 4 * VOCABULARY_SIZE)


def batches():
    rng = np.random.default_rng(0)
    while True:
        source, target = rng.integers(1, 9, (2, 4, 6)).astype("int32")
        target[0, 2:] = 0
        weights = ((target != 0) / (target != 0).sum()).astype("float32")
        weights[3, 1] = 0
        yield {"source_ids": source, "target_ids": target}, target, weights


def small_transformer(**options):
    sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "dropout": 0.1}
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return build_transformer(vocabulary_size=VOCABULARY_SIZE, **sizes, **layers, **options)


class ReadsLogits(keras.metrics.Mean):
    """A metric that is not of the package, so the step has to compute the logits."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_pred)


def trainer_of(case, *others):
    accumulate, options, reduction = CASES[case]
    keras.utils.set_random_seed(1)
    trainer = training.training_model(small_transformer(**options), accumulate)
    loss = losses.LabelSmoothingCrossEntropy(0.1, vocabulary_size=21, reduction=reduction)
    optimizer = optimizers.AdamWithGradientNorm(0.01, global_clipnorm=0.5)
    if case == "float16":
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**10)
    options = metrics.training_metrics(loss)
    trainer.compile(
        optimizer,
        loss,
        metrics=[*options["metrics"], *others],
        weighted_metrics=options["weighted_metrics"],
    )
    return trainer


def results(case, on_train_begin, *others):
    """Values of some steps, of an evaluation, gradients and weights."""
    trainer = trainer_of(case, *others)
    seen = []
    keep = keras.callbacks.LambdaCallback(
        on_train_begin=on_train_begin,
        on_train_batch_end=lambda batch, logs: seen.append(dict(logs)),
    )
    trainer.fit(batches(), steps_per_epoch=3, callbacks=[keep], shuffle=False, verbose=0)
    seen.append(trainer.evaluate(batches(), steps=2, verbose=0, return_dict=True))
    logs = [{n: float(v) for n, v in each.items() if n != "other"} for each in seen]
    return logs, trainer.gradients(next(batches())), trainer.get_weights()


@pytest.mark.parametrize(
    "case",
    [
        "tied",
        "slices",
        *(pytest.param(case, marks=pytest.mark.slow) for case in ("mean", "bfloat16", "float16")),
    ],
)
def test_steps_without_logits_are_those_with_them(case, monkeypatch):
    kinds = set()
    update = metrics.StepLoss.update_state

    def spy(self, y_true, y_pred, sample_weight=None):
        kinds.add(type(y_pred) is TokenScores)
        return update(self, y_true, y_pred, sample_weight)

    monkeypatch.setattr(metrics.StepLoss, "update_state", spy)
    # Keras builds the metrics with logits before it begins.
    logs, gradients, weights = results(case, lambda logs: kinds.clear())
    assert kinds == {True}
    others = ReadsLogits("other")
    expected_logs, expected_gradients, expected_weights = results(
        case, lambda logs: kinds.clear(), others
    )
    assert kinds == {False}
    is_low = "dtype" in CASES[case][1]
    for ours, theirs in zip(logs, expected_logs, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-2 if is_low else 1e-5)
    ours, theirs = flat(gradients), flat(expected_gradients)
    assert np.linalg.norm(ours - theirs) <= (2e-2 if is_low else 1e-5) * np.linalg.norm(theirs)
    # An update of Adam is 0.01, whatever the size of the gradient.
    assert np.abs(flat(weights) - flat(expected_weights)).max() <= (0.06 if is_low else 1e-4)


def flat(arrays):
    return np.concatenate([np.ravel(np.asarray(each, "float32")) for each in arrays])


def test_steps_without_logits_have_the_mask_of_the_logits():
    """An embedding with a `mask_id` hides what is not the loss's padding."""
    ids = np.array([[5, 3, 0, 0], [2, 0, 6, 1]], "int32")
    labels = np.array([[1, 2, 3, 4], [5, 6, 4, 0]], "int32")
    weights = np.array([[1.0, 2.0, 5.0, 1.0], [0.5, 1.0, 3.0, 1.0]], "float32")
    embedding = PositionalEmbedding(7, 8, mask_id=0)
    model = Transformer.from_layers(embedding, [TransformerDecoderLayer(16, 2)])
    loss = losses.LabelSmoothingCrossEntropy(0.1, reduction="sum")
    unseen = np.where(ids != 0, weights, 0)
    expected = float(loss(labels, keras.ops.convert_to_numpy(model({"token_ids": ids})), unseen))
    perplexities = []
    for each in (model, training.training_model(model)):
        each.compile("sgd", loss, weighted_metrics=[metrics.Perplexity()])
        found = each.test_on_batch({"token_ids": ids}, labels, weights, return_dict=True)
        assert float(found["loss"]) == pytest.approx(expected, rel=1e-5)
        perplexities.append(float(found["perplexity"]))
    assert perplexities[0] == pytest.approx(perplexities[1], rel=1e-5)

"""What `LayerDiagnostics` measures, against gradients by differences and entropies by hand."""

import itertools
import math

import keras
import numpy as np
import pytest

from keras_transformer import losses, training
from keras_transformer.models import build_language_model, build_transformer
from keras_transformer.training.callbacks.layer_diagnostics import (
    COLUMNS,
    model_parts,
    relative_entropies,
)
from tests.training import equal_runs
from tests.training.small_training import VOCABULARY_SIZE, batches, compiled, train

pytestmark = pytest.mark.core

SIZES = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "dropout": 0.3}
PARTS = [
    "embedding",
    "encoder_layer_1.attention",
    "encoder_layer_1.attention_norm",
    "encoder_layer_1.feed_forward",
    "encoder_layer_1.feed_forward_norm",
    "decoder_layer_1.self_attention",
    "decoder_layer_1.self_attention_norm",
    "decoder_layer_1.cross_attention",
    "decoder_layer_1.cross_attention_norm",
    "decoder_layer_1.feed_forward",
    "decoder_layer_1.feed_forward_norm",
]


def small_transformer(**options):
    keras.utils.set_random_seed(4)
    return build_transformer(
        vocabulary_size=12, num_encoder_layers=1, num_decoder_layers=1, **{**SIZES, **options}
    )


def pairs():
    """A batch of three pairs with padding."""
    rng = np.random.default_rng(1)
    source = rng.integers(1, 12, (3, 5)).astype("int32")
    labels = rng.integers(1, 12, (3, 4)).astype("int32")
    source[1, 3:], labels[2, 2:] = 0, 0
    inputs = {"source_ids": source, "target_ids": np.pad(labels, ((0, 0), (1, 0)))[:, :-1]}
    weights = ((labels != 0) / (labels != 0).sum()).astype("float32")
    return inputs, labels, weights


def measured(trainer, path, epochs=1, batch=None, **options):
    batch = batch or pairs()
    diagnostics = training.LayerDiagnostics(batch, path)
    trainer.fit(
        (batch for _ in range(2 * epochs)),
        steps_per_epoch=2,
        epochs=epochs,
        verbose=0,
        callbacks=[diagnostics],
        **options,
    )
    return equal_runs.rows(path)


def test_entropies_of_known_weights():
    weights = np.zeros((1, 2, 3, 4))
    weights[0, 0] = [[0.25] * 4, [0, 1, 0, 0], [0.5, 0.5, 0, 0]]
    weights[0, 1] = [[0.5, 0.25, 0.25, 0], [0.25] * 4, [1, 0, 0, 0]]
    visible = np.ones((1, 3, 4), bool)
    visible[0, 2, 2:] = False  # of the last row two places; weights of 0 on visible ones count
    expected = [[1, 0, 1], [1.5 * math.log(2) / math.log(4), 1, 0]]
    found = relative_entropies(weights, np.ones((1, 3), bool), visible)
    np.testing.assert_allclose(found, np.mean(expected, axis=1), rtol=1e-12)
    found = relative_entropies(weights, np.array([[True, False, False]]), visible)
    np.testing.assert_allclose(found, [1, expected[1][0]], rtol=1e-12)
    assert relative_entropies(weights, np.zeros((1, 3), bool), visible).tolist() == [0, 0]
    visible[0, 2, 1:] = False  # a row that sees a single place says nothing
    found = relative_entropies(weights, np.ones((1, 3), bool), visible)
    np.testing.assert_allclose(found, [np.mean(row[:2]) for row in expected], rtol=1e-12)


def test_one_row_for_every_part_with_all_weights(tmp_path):
    model = small_transformer()
    rows = measured(compiled(model), tmp_path / "layers.csv", epochs=2)
    assert list(rows[0]) == list(COLUMNS)
    assert [(row["step"], row["part"]) for row in rows] == [
        (step, part) for step in ("2", "4") for part in PARTS
    ]
    weights = [weight for part in model_parts(model).values() for weight in part]
    assert len(weights) == len(model.trainable_weights) == len({id(weight) for weight in weights})
    for row in rows:
        assert bool(row["attention_entropy"]) == row["part"].endswith("attention")


def test_norms_updates_and_gradients_are_those_of_the_weights(tmp_path):
    trainer = compiled(small_transformer(dropout=0.0), keras.optimizers.SGD(0.1))
    before = {part: _vector(weights) for part, weights in model_parts(trainer).items()}
    batch = pairs()
    rows = measured(trainer, tmp_path / "layers.csv", batch=batch)
    assert [row["part"] for row in rows] == PARTS
    for row in rows:
        now = _vector(model_parts(trainer)[row["part"]])
        moved = np.linalg.norm(now - before[row["part"]]) / np.linalg.norm(before[row["part"]])
        assert float(row["weight_norm"]) == pytest.approx(np.linalg.norm(now), rel=1e-5)
        assert float(row["update"]) == pytest.approx(moved, rel=1e-4)
    # With plain SGD the next step moves every part by the learning rate times its gradient.
    before = {part: _vector(weights) for part, weights in model_parts(trainer).items()}
    trainer.fit((batch for _ in range(1)), steps_per_epoch=1, verbose=0)
    for row in rows:
        moved = np.linalg.norm(_vector(model_parts(trainer)[row["part"]]) - before[row["part"]])
        assert moved == pytest.approx(0.1 * float(row["gradient_norm"]), rel=1e-3)


def test_an_attention_without_queries_looks_at_all_alike(tmp_path):
    trainer = compiled(small_transformer(), keras.optimizers.SGD(0.0))
    (decoder,) = (layer for layer in trainer.layers if layer.name == "decoder_layer_1")
    kernel = decoder.cross_attention.projections["query"].kernel
    kernel.assign(np.zeros(kernel.shape))
    rows = measured(trainer, tmp_path / "layers.csv")
    entropies = {row["part"]: row["attention_entropy"] for row in rows}
    assert float(entropies["decoder_layer_1.cross_attention"]) == pytest.approx(1, abs=1e-6)
    assert float(entropies["encoder_layer_1.attention"]) < 0.999
    lowest = [float(row["lowest_head_entropy"]) for row in rows if row["lowest_head_entropy"]]
    assert all(0 < low <= 1 + 1e-6 for low in lowest)


def test_a_self_attention_is_measured_on_what_its_masks_leave(tmp_path):
    trainer = compiled(small_transformer(attention_window=3), keras.optimizers.SGD(0.0))
    for name, attention in (
        ("encoder_layer_1", "attention"),
        ("decoder_layer_1", "self_attention"),
    ):
        layer = getattr(trainer.get_layer(name), attention)
        kernel = layer.projections["query_key_value"].kernel
        kernel.assign(np.zeros(kernel.shape))
    rows = measured(trainer, tmp_path / "layers.csv")
    entropies = {row["part"]: row["attention_entropy"] for row in rows}
    for part in ("encoder_layer_1.attention", "decoder_layer_1.self_attention"):
        assert float(entropies[part]) == pytest.approx(1, abs=1e-6)


def own_trainer():
    """A model of two layers, neither of which is this package's."""
    keras.utils.set_random_seed(4)
    inputs = keras.Input((None,), dtype="int32")
    table = keras.layers.Embedding(VOCABULARY_SIZE, 8, name="table")
    logits = keras.layers.Dense(VOCABULARY_SIZE, name="logits")(table(inputs))
    return compiled(keras.Model(inputs, logits))


@pytest.fixture
def train_own(tmp_path, monkeypatch):
    """Train such a model in a run with diagnostics; gives their rows."""
    monkeypatch.setattr(training.TrainingRun, "diagnostic_batch", next(batches()))

    def train_it(**options):
        run, _ = train(tmp_path / "run", own_trainer(), layer_diagnostics=True, **options)
        return equal_runs.rows(run.directory.layers_path)

    return train_it


def test_another_model_has_its_layers_for_parts_and_no_entropies(train_own):
    rows = train_own(steps=4, save_every=2)
    assert [(row["step"], row["part"]) for row in rows] == [
        (step, part) for step in ("2", "4") for part in ("table", "logits")
    ]
    for row in rows:
        assert float(row["gradient_norm"]) > 0
        assert float(row["update"]) > 0
        assert not row["attention_entropy"] + row["lowest_head_entropy"]


def test_a_resumed_training_has_no_update_in_its_first_rows(train_own):
    train_own(steps=2, save_every=2)
    rows = train_own(steps=6, save_every=2, resume=True)
    assert [(row["step"], bool(row["update"])) for row in rows[::2]] == [
        ("2", True), ("4", False), ("6", True)
    ]  # fmt: skip


def test_a_measurement_that_fails_costs_no_weights(train_own, tmp_path, monkeypatch):
    def fail(diagnostics):
        raise ZeroDivisionError

    monkeypatch.setattr(training.LayerDiagnostics, "rows", fail)
    with pytest.raises(ZeroDivisionError):
        train_own(steps=2, save_every=2)
    assert [path.name for path in (tmp_path / "run" / "checkpoints").glob("*.weights.h5")]


def test_gradients_compile_once_and_are_those_of_the_present_weights():
    class CountedLoss(losses.LabelSmoothingCrossEntropy):
        traces = 0

        def call(self, y_true, y_pred):
            self.traces += 1
            return super().call(y_true, y_pred)

    trainer, loss = own_trainer(), CountedLoss(0.1, reduction="sum")
    trainer.compile("sgd", loss)
    batch, *others = itertools.islice(batches(), 3)
    before = norm(trainer.gradients(batch))
    assert before == pytest.approx(norm(trainer.gradients(batch)))
    traces = loss.traces
    changed = [norm(trainer.gradients(other)) for other in others]
    trainer.get_layer("table").set_weights([np.zeros((VOCABULARY_SIZE, 8))])
    changed.append(norm(trainer.gradients(batch)))
    assert loss.traces == traces
    assert len({before, *changed}) == 4


def test_small_gradients_of_float16_are_not_lost():
    optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(), initial_scale=2.0**13)
    trainer = compiled(small_transformer(dropout=0.0, dtype="mixed_float16"), optimizer)
    inputs, labels, weights = pairs()
    whole = norm(trainer.gradients((inputs, labels, weights)))
    small = norm(trainer.gradients((inputs, labels, weights * np.float32(1e-7))))
    assert small == pytest.approx(1e-7 * whole, rel=0.05)


def norm(gradients):
    return np.linalg.norm(np.concatenate([np.ravel(np.asarray(one)) for one in gradients]))


@pytest.mark.slow
def test_a_resumed_average_has_no_update_in_its_first_row(tmp_path):
    optimizer = keras.optimizers.SGD(0.1, use_ema=True, ema_momentum=0.5)
    trainer = compiled(small_transformer(), optimizer)
    rows = measured(trainer, tmp_path / "layers.csv")
    assert all(row["update"] for row in rows)
    rows = measured(trainer, tmp_path / "layers.csv", epochs=2)[len(rows) :]
    assert [bool(row["update"]) for row in rows] == [False] * len(PARTS) + [True] * len(PARTS)


@pytest.mark.slow
def test_a_training_is_the_same_with_and_without(tmp_path):
    plain, watched = compiled(small_transformer(), "adam"), compiled(small_transformer(), "adam")
    batch = pairs()
    plain.fit((batch for _ in range(4)), steps_per_epoch=2, epochs=2, verbose=0)
    measured(watched, tmp_path / "layers.csv", epochs=2, batch=batch)
    for weight, other in zip(plain.get_weights(), watched.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-6, atol=1e-7)


def test_a_language_model_has_its_own_attention_alone(tmp_path):
    keras.utils.set_random_seed(4)
    model = build_language_model(vocabulary_size=12, num_decoder_layers=1, **SIZES)
    inputs, labels, weights = pairs()
    batch = ({"token_ids": inputs["target_ids"]}, labels, weights)
    rows = measured(compiled(model), tmp_path / "layers.csv", batch=batch)
    assert [row["part"] for row in rows] == [
        part for part in PARTS if "encoder_layer" not in part and "cross" not in part
    ]
    assert float(rows[1]["attention_entropy"]) > 0


@pytest.mark.slow
def test_rows_are_appended_and_other_models_refused(tmp_path):
    path = tmp_path / "layers.csv"
    trainer = compiled(small_transformer())
    measured(trainer, path)
    assert len(measured(trainer, path)) == 2 * len(PARTS)
    model = small_transformer()
    model.compile("sgd", losses.LabelSmoothingCrossEntropy())
    with pytest.raises(ValueError, match="needs a model from `training.training_model`"):
        measured(model, path)


def test_without_a_file_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    batch = next(batches())
    own_trainer().fit(
        (batch for _ in range(1)),
        steps_per_epoch=1,
        verbose=0,
        callbacks=[training.LayerDiagnostics(batch, None)],
    )
    assert not list(tmp_path.iterdir())


def _vector(weights):
    return np.concatenate([np.asarray(weight.numpy(), "float64").ravel() for weight in weights])

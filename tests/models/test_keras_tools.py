"""Keras's tools on a `Transformer`: callbacks, training steps of one's own, loaders, precisions."""

import keras
import numpy as np
import pytest
from keras import callbacks, ops

from keras_transformer import LabelSmoothingCrossEntropy, Perplexity, TokenAccuracy
from keras_transformer.layers import TransformerEncoderLayer
from keras_transformer.metrics import TokenLoss
from keras_transformer.models import ModelOptions, Transformer, build_transformer

pytestmark = pytest.mark.core
BACKEND = keras.backend.backend()
SIZES = {
    "vocabulary_size": 12,
    "hidden_dim": 8,
    "intermediate_dim": 16,
    "num_heads": 2,
    "num_encoder_layers": 1,
    "num_decoder_layers": 1,
}
IDS = np.random.default_rng(0).integers(3, 12, (8, 5)).astype("int32")
BATCH = {"source_ids": IDS, "target_ids": np.pad(IDS[:, :-1], [(0, 0), (1, 0)], constant_values=1)}


def compiled(model=None, **options):
    keras.utils.set_random_seed(1)
    model = model or build_transformer(**SIZES, **options)
    model.compile(
        keras.optimizers.Adam(0.01), LabelSmoothingCrossEntropy(0.1), metrics=[Perplexity()]
    )
    return model


def fitted(model, epochs, *called):
    data = {"validation_data": (BATCH, IDS), "batch_size": 4, "verbose": 0}
    return model.fit(BATCH, IDS, epochs=epochs, callbacks=[*called], **data)


def assert_equal_weights(model, other, **tolerance):
    assert len(model.weights) == len(other.weights)
    for one, two in zip(model.get_weights(), other.get_weights(), strict=True):
        np.testing.assert_allclose(one, two, **tolerance)


def test_checkpoints_of_keras_load_as_models_and_as_weights(tmp_path):
    model = compiled()
    best = callbacks.ModelCheckpoint(
        tmp_path / "best.keras", "val_perplexity", mode="min", save_best_only=True
    )
    each = callbacks.ModelCheckpoint(tmp_path / "{epoch}.weights.h5", save_weights_only=True)
    history = fitted(model, 3, best, each).history["val_perplexity"]
    assert history == sorted(history, reverse=True)  # so the last one is the best
    loaded = keras.models.load_model(tmp_path / "best.keras")
    assert type(loaded) is Transformer
    assert_equal_weights(loaded, model)
    fitted(loaded, 1)
    other = build_transformer(**SIZES)
    other.load_weights(tmp_path / "3.weights.h5")
    assert_equal_weights(other, model)


def test_a_training_that_is_backed_up_continues_with_its_epoch_and_weights(tmp_path):
    class Stop(callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    stopped, resumed, weights = compiled(), compiled(), []
    with pytest.raises(KeyboardInterrupt):
        fitted(stopped, 4, callbacks.BackupAndRestore(tmp_path), Stop())
    keep = callbacks.LambdaCallback(
        on_epoch_begin=lambda epoch, logs: weights.append(resumed.get_weights())
    )
    history = fitted(resumed, 4, callbacks.BackupAndRestore(tmp_path), keep)
    assert history.epoch == [2, 3]
    for found, expected in zip(weights[0], stopped.get_weights(), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_early_stopping_restores_the_best_weights():
    model, weights = compiled(), []
    keep = callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: weights.append(model.get_weights())
    )
    never_better = callbacks.EarlyStopping(
        "val_loss", min_delta=1e9, patience=2, restore_best_weights=True
    )
    assert fitted(model, 9, keep, never_better).epoch == [0, 1, 2]
    for found, first in zip(model.get_weights(), weights[0], strict=True):
        np.testing.assert_array_equal(found, first)


@pytest.mark.parametrize(
    ("name", "more_is_better"), [("accuracy", True), ("perplexity", False), ("token_loss", False)]
)
def test_keras_knows_which_value_of_a_metric_is_better(name, more_is_better):
    model, loss = compiled(), LabelSmoothingCrossEntropy(0.1)
    model.compile("sgd", loss, metrics=[TokenAccuracy(), Perplexity(), TokenLoss(loss)])
    callback = callbacks.EarlyStopping(f"val_{name}")
    fitted(model, 1, callback)
    assert bool(callback.monitor_op(2.0, 1.0)) is more_is_better


def test_the_learning_rate_is_reduced_on_a_plateau():
    model = compiled()
    fitted(model, 4, callbacks.ReduceLROnPlateau("val_loss", factor=0.5, patience=1, min_delta=1e9))
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01 / 8)


def test_tensorboard_of_keras_writes_every_weight(tmp_path):
    pytest.importorskip("tensorboard")
    fitted(compiled(), 1, callbacks.TensorBoard(tmp_path, histogram_freq=1, update_freq=1))
    assert {path.parent.name for path in tmp_path.rglob("events.*")} == {"train", "validation"}


def test_a_subclass_keeps_its_training_step_in_a_file(tmp_path):
    class Mine(Transformer):
        def train_step(self, *arguments):
            self.was_called = True
            return super().train_step(*arguments)

    model = compiled(Mine(ModelOptions(**SIZES)))
    fitted(model, 1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", custom_objects={"Mine": Mine})
    assert type(loaded) is Mine
    assert model.was_called
    expected, found = (each.generate(IDS[:2], extra_length=2)[0] for each in (model, loaded))
    np.testing.assert_array_equal(ops.convert_to_numpy(expected), ops.convert_to_numpy(found))


def test_frozen_layers_stay_after_compile_and_the_others_learn():
    model = compiled()
    fitted(model, 1)
    model.encoder_layers[0].trainable = model.source_embedding.trainable = False
    compiled(model)
    before = [np.array(ops.convert_to_numpy(weight)) for weight in model.weights]
    fitted(model, 1)
    for weight, values in zip(model.weights, before, strict=True):
        changed = bool((ops.convert_to_numpy(weight) != values).any())
        assert changed == weight.path.startswith("decoder_layer_1"), weight.path


def test_fit_reads_a_loader_of_pytorch():
    data = pytest.importorskip("torch.utils.data")

    class Sentences(data.Dataset):
        def __len__(self):
            return len(IDS)

        def __getitem__(self, row):
            return {name: ids[row] for name, ids in BATCH.items()}, IDS[row]

    loaded, read = compiled(), compiled()
    loaded.fit(data.DataLoader(Sentences(), batch_size=4), epochs=2, verbose=0)
    read.fit(BATCH, IDS, batch_size=4, shuffle=False, epochs=2, verbose=0)
    assert_equal_weights(loaded, read, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "tolerance"),
    [
        pytest.param(
            "float64",
            1e-5,
            marks=pytest.mark.skipif(BACKEND == "jax", reason="JAX makes float32 of it"),
        ),
        ("float16", 0.03),
        ("bfloat16", 0.2),
    ],
)
def test_plain_precisions_compute_train_and_search(dtype, tolerance):
    """Without a mixed policy, the weights have the dtype too; Adam's squares would be 0 in half."""
    model, exact = (build_transformer(**SIZES, dtype=each) for each in (dtype, "float32"))
    model.compile(keras.optimizers.SGD(0.3), LabelSmoothingCrossEntropy(0.1))
    assert {weight.dtype for weight in model.trainable_weights} == {dtype}
    for weight, other in zip(model.weights, exact.weights, strict=True):
        other.assign(ops.cast(weight.value, other.dtype))
    found, expected = (ops.convert_to_numpy(each(BATCH)) for each in (model, exact))
    np.testing.assert_allclose(found, expected, atol=tolerance)
    losses = fitted(model, 3).history["loss"]
    assert np.isfinite(losses).all()
    assert losses[-1] < losses[0]
    _, scores = model.generate(IDS[:2], extra_length=2)
    assert np.isfinite(ops.convert_to_numpy(scores)).all()


def test_graphs_name_layers():
    pytest.importorskip("pydot")
    options = {"show_shapes": True, "show_dtype": True, "show_trainable": True}
    dot = keras.utils.model_to_dot(
        build_transformer(**SIZES), show_layer_names=True, expand_nested=True, **options
    ).to_string()
    for name in ("source_mask", "embedding", "encoder_layer_1", "decoder_layer_1"):
        assert name in dot


def test_sequences_of_sequences_go_through_time_distributed():
    """Our layers take (batch, length, hidden_dim); one more axis is Keras's wrapper's."""
    vectors = np.random.default_rng(0).normal(size=(2, 3, 4, 8)).astype("float32")
    layer, inputs = TransformerEncoderLayer(16, 2), keras.Input((3, 4, 8))
    model = keras.Model(inputs, keras.layers.TimeDistributed(layer)(inputs))
    expected = [ops.convert_to_numpy(layer(vectors[:, place])) for place in range(3)]
    found = ops.convert_to_numpy(model(vectors))
    np.testing.assert_allclose(found, np.stack(expected, axis=1), atol=1e-5)
    model.compile("sgd", "mse")
    assert np.isfinite(model.train_on_batch(vectors, vectors))

"""Steps of several devices and in slices against the same steps of one device at once."""

import keras
import numpy as np
import pytest

from keras_transformer.losses import LabelSmoothingCrossEntropy
from keras_transformer.metrics import Perplexity, StepLoss, TokenLoss
from keras_transformer.optimizers import AdamWithGradientNorm
from keras_transformer.training import training_model
from tests.python_programs import run_python
from tests.training import exact_steps
from tests.training.small_training import VOCABULARY_SIZE, batches, small_model


def steps(path, devices, *cases, backend="tensorflow"):
    """What the cases gave: name -> value of every step."""
    program = ["-m", "tests.training.exact_steps"]
    path = path / "steps.npz"
    run_python(*program, path, devices, *cases, KERAS_BACKEND=backend, JAX_PLATFORMS="cpu")
    with np.load(path) as values:
        return dict(values)


def check_equal(values, case, tolerance=1e-5):
    """Everything that was recorded is equal within a relative L2 distance."""
    one, many = (
        {name: values[f"{case}/{kind}/{name}"] for name in exact_steps.RECORDED}
        for kind in ("one", "many")
    )
    for name, expected in one.items():
        assert many[name].shape == expected.shape
        # Updates are those of SGD, the gradients themselves, or those that Adam makes of them.
        pairs = (
            zip(many[name], expected, strict=True)
            if expected.ndim > 1
            else [(many[name], expected)]
        )
        for actual, wanted in pairs:
            assert np.linalg.norm(actual - wanted) <= tolerance * np.linalg.norm(wanted), name
    assert np.linalg.norm(one["updates"], axis=1).min() > 0


@pytest.mark.tensorflow
def test_two_replicas_take_the_steps_of_one_device(tmp_path):
    values = steps(tmp_path, 2, "untied-accumulate", "dropout")
    check_equal(values, "untied-accumulate")
    check_dropout(values)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize(
    ("devices", "cases"),
    [
        (2, ["tied", "tied-accumulate", "untied", "mean", "muon"]),
        (2, ["apart", "apart-accumulate"]),
        (2, ["guided", "guided-accumulate"]),
        (8, ["tied", "untied-accumulate"]),
    ],
)
def test_replicas_take_the_steps_of_one_device(tmp_path, devices, cases):
    values = steps(tmp_path, devices, *cases, "dropout")
    for case in cases:
        check_equal(values, case)
    check_dropout(values)


def check_dropout(values):
    masks, alone = values["dropout/masks"], values["dropout/alone"]
    first, second, restored = masks
    np.testing.assert_array_equal(first[0], alone)
    np.testing.assert_array_equal(restored, first)
    drawn = [mask.tobytes() for mask in (*first, *second)]
    assert len(set(drawn)) == len(drawn)


@pytest.mark.slow
def test_devices_of_jax_take_the_steps_of_one(tmp_path):
    check_equal(steps(tmp_path, 4, "tied-accumulate", backend="jax"), "tied-accumulate")


@pytest.mark.slow
def test_devices_of_jax_take_the_steps_of_one_without_accumulation(tmp_path):
    cases = ("tied", "untied", "untied-accumulate", "mean", "muon", "guided-accumulate")
    values = steps(tmp_path, 4, *cases, backend="jax")
    for case in cases:
        check_equal(values, case)


@pytest.mark.slow
@pytest.mark.parametrize(("backend", "devices"), [("tensorflow", 2), ("jax", 4)])
def test_all_replicas_skip_a_step_that_overflows_on_one(tmp_path, backend, devices):
    values = steps(tmp_path, devices, "float16", backend=backend)
    for kind in ("one", "many"):
        assert values[f"float16/{kind}/scale"].tolist() == [1024, 1024, 512, 512, 512]
        moved = np.linalg.norm(values[f"float16/{kind}/updates"], axis=1) > 0
        assert moved.tolist() == [True, True, False, True, True]
    one, many = (values[f"float16/{kind}/weights"] for kind in ("one", "many"))
    assert np.linalg.norm(many - one) < 1e-3 * np.linalg.norm(one)


def compiled(make, reduction="sum", **options):
    """What `make` makes of the small model, compiled."""
    trainer = make(small_model(), **options)
    loss = LabelSmoothingCrossEntropy(0.1, reduction=reduction)
    trainer.compile(
        keras.optimizers.SGD(1.0),
        loss,
        metrics=[Perplexity(), TokenLoss(loss)],
        weighted_metrics=[StepLoss(loss)],
    )
    return trainer


def test_it_has_the_variables_of_the_model():
    model = small_model()
    trainer = training_model(model, accumulate=2)
    assert [id(each) for each in trainer.variables] == [id(each) for each in model.variables]


def test_one_slice_is_the_step_of_keras():
    def losses(make):
        keras.utils.set_random_seed(1)
        model = compiled(make)
        seen = []
        keep = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: seen.append(dict(logs))
        )
        model.fit(batches(), steps_per_epoch=3, callbacks=[keep], shuffle=False, verbose=0)
        return seen

    for ours, theirs in zip(losses(training_model), losses(lambda model: model), strict=True):
        assert {name: float(value) for name, value in ours.items()} == pytest.approx(
            {name: float(value) for name, value in theirs.items()}, rel=1e-6
        )


@pytest.mark.tensorflow
@pytest.mark.parametrize("options", [{}, {"global_clipnorm": 0.1, "use_ema": True}])
def test_adam_in_one_pass_is_that_of_keras(options):
    def weights(is_fused):
        keras.utils.set_random_seed(1)
        model = training_model(small_model())
        loss = LabelSmoothingCrossEntropy(0.1, reduction="sum")
        optimizer = AdamWithGradientNorm(0.01, beta_2=0.98, epsilon=1e-9, **options)
        model.compile(optimizer, loss, weighted_metrics=[StepLoss(loss)])
        assert optimizer.fused_update is not None
        if not is_fused:
            optimizer.fused_update = None
        model.fit(batches(), steps_per_epoch=5, shuffle=False, verbose=0)
        return [variable.numpy() for variable in (*model.variables, *optimizer.variables)]

    for ours, theirs in zip(weights(True), weights(False), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)


@pytest.mark.tensorflow
def test_no_weight_changes_before_all_gradients_are_there():
    """What a busy machine would show, now and then: an update that overtakes a gradient."""
    import tensorflow as tf

    model = compiled(training_model)
    model.train_on_batch(*next(batches()))  # makes the optimizer's variables
    step = tf.function(model.train_step).get_concrete_function(next(batches()))
    handles = {id(weight.value.handle) for weight in model.trainable_weights}
    inputs = {inner.name for outer, inner in step.graph.captures if id(outer) in handles}
    assert len(inputs) == len(handles) == 3
    operations = step.graph.get_operations()
    updates = [
        each
        for each in operations
        if each.type.startswith("Assign") and each.inputs[0].name in inputs
    ]
    assert len(updates) == 3
    # TensorFlow's optimizer of graphs dissolves Keras's own `IdentityN`; it keeps this order.
    waiting = {each.name for each in operations if len(each.control_inputs) >= 2}
    for update in updates:
        assert waiting & ancestors(update)


def ancestors(operation):
    """The names of all operations that have to be done before one."""
    found, waiting = set(), [operation]
    while waiting:
        each = waiting.pop()
        before = [*(tensor.op for tensor in each.inputs), *each.control_inputs]
        waiting += [other for other in before if other.name not in found]
        found.update(other.name for other in before)
    return found


def test_every_slice_has_its_own_dropout_mask():
    ones, row = keras.Input((VOCABULARY_SIZE,)), np.ones((1, VOCABULARY_SIZE), "float32")
    outputs = keras.layers.Dense(1, kernel_initializer="ones")(
        keras.layers.Dropout(0.5, seed=2)(ones)
    )
    trainer = training_model(keras.Model(ones, outputs), accumulate=2)
    trainer.compile(keras.optimizers.SGD(1.0), keras.losses.MeanAbsoluteError(reduction="sum"))
    rows, y, weights = np.repeat(row, 2, axis=0), np.full((2, 1), -100.0), np.ones(2)
    trainer.fit(rows, y, sample_weight=weights, shuffle=False, verbose=0)
    # The loss is the sum of the outputs + 100, its gradient the sum of both rows' masks.
    layer = keras.layers.Dropout(0.5, seed=2)
    masks = [np.asarray(layer(row, training=True)) for _ in range(2)]
    assert (masks[0] != masks[1]).any()
    np.testing.assert_array_equal(1 - trainer.trainable_weights[0].numpy().T, sum(masks))


def test_an_embedding_learns_from_a_token_that_comes_twice_as_from_any():
    def learned(ids):
        inputs = keras.Input((None,), dtype="int32")
        model = keras.Model(inputs, keras.layers.Embedding(3, 1)(inputs))
        trainer = training_model(model)
        adam = keras.optimizers.Adam(0.1)
        trainer.compile(adam, keras.losses.MeanAbsoluteError(reduction="sum"))
        trainer.fit(ids, np.full((*ids.shape, 1), 9.0), batch_size=2, verbose=0)
        return adam.variables[-1].numpy()[1]

    # Adam's mean of squares: of 1 + 1 for a token twice in the batch, of 1 otherwise. Keras itself
    # squares the parts of a gradient that comes as rows.
    np.testing.assert_allclose(learned(np.array([[1], [1]])), 4 * learned(np.array([[1], [0]])))


def test_the_loss_of_a_validation_is_of_its_last_batch():
    trainer = compiled(training_model, accumulate=2)
    data = batches()
    trainer.fit(data, steps_per_epoch=1, verbose=0, shuffle=False)
    first, second = next(data), next(data)
    alone = trainer.evaluate(*second[:2], sample_weight=second[2], verbose=0, return_dict=True)
    both = trainer.evaluate((batch for batch in (first, second)), verbose=0, return_dict=True)
    assert both["step_loss"] == pytest.approx(alone["step_loss"], rel=1e-6)


@pytest.mark.parametrize("weights", [(), (None,)])
def test_rows_read_at_once_need_no_weights(weights):
    data = ((x, y, *weights) for x, y, _ in batches())
    trainer = compiled(training_model, "mean_with_sample_weight")
    logs = trainer.fit(data, steps_per_epoch=1, verbose=0, shuffle=False).history
    assert logs["step_loss"][0] == pytest.approx(logs["token_loss"][0], rel=1e-5)


def test_slices_without_weights_are_refused():
    trainer = compiled(training_model, accumulate=2)
    with pytest.raises(ValueError, match="must include weights .* accumulate=2"):
        trainer.fit(((x, y) for x, y, _ in batches()), steps_per_epoch=1, verbose=0)


@pytest.mark.parametrize("loss", ["mse", keras.losses.MeanSquaredError()])
def test_a_loss_whose_slices_do_not_add_up_is_refused(loss):
    trainer = training_model(small_model(), accumulate=2)
    with pytest.raises(ValueError, match="`loss` must be .* with reduction 'sum'"):
        trainer.compile("sgd", loss)
    training_model(small_model()).compile("sgd", loss)


def test_means_do_not_add_up_either():
    trainer = training_model(small_model(), accumulate=2)
    mean, total = (LabelSmoothingCrossEntropy(0.1, reduction=name) for name in ("mean", "sum"))
    with pytest.raises(ValueError, match="`loss` must be .* 'sum' .* reduction 'mean', acc"):
        trainer.compile("sgd", mean)
    with pytest.raises(ValueError, match="in `StepLoss` too.* reduction 'mean', accumulate=2"):
        trainer.compile("sgd", total, weighted_metrics=[StepLoss(total), StepLoss(mean)])
    trainer.compile("sgd", total, weighted_metrics=[StepLoss(total)])


@pytest.mark.parametrize("accumulate", [1, 2])
def test_weights_of_sentences_sliced(accumulate):
    """With a sum, (batch,) weights of a batch in slices are those of its rows."""
    x, y, _ = next(batches())
    y[:2, 1:] = 0
    rows = np.array([0.5, 1.0, 2.0, 3.0], "float32")
    per_token = (rows[:, None] * (y != 0)).astype("float32")

    def logs(weights):
        keras.utils.set_random_seed(1)
        trainer = compiled(training_model, accumulate=accumulate)
        data = ((x, y, weights) for _ in range(1))
        return trainer.fit(data, steps_per_epoch=1, verbose=0, shuffle=False).history

    by_rows, by_tokens = logs(rows), logs(per_token)
    assert by_rows["step_loss"] == pytest.approx(by_tokens["step_loss"], rel=1e-6)
    assert by_rows["loss"] == pytest.approx(by_rows["step_loss"], rel=1e-6)


def test_rows_that_are_no_multiple_are_refused():
    trainer = compiled(training_model, accumulate=3)
    with pytest.raises(Exception, match="must be a multiple of .*`accumulate`"):
        trainer.fit(batches(), steps_per_epoch=1, verbose=0)


@pytest.mark.parametrize("accumulate", [0, 1.5, None])
def test_a_number_of_slices_that_is_none_is_refused(accumulate):
    with pytest.raises(ValueError, match="`accumulate` must be"):
        training_model(small_model(), accumulate)

"""The gradient norm against numbers worked out by hand."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.optimizers import AdamWithGradientNorm
from tests.python_programs import run_python


def apply(optimizer, *gradients):
    weights = [keras.Variable(np.zeros(len(gradient))) for gradient in gradients]
    gradients = [ops.convert_to_tensor(np.array(gradient, "float32")) for gradient in gradients]
    optimizer.apply(gradients, weights)
    return float(ops.convert_to_numpy(optimizer.gradient_norm))


@pytest.mark.parametrize(
    "clipping", [{}, {"clipnorm": 1.0}, {"global_clipnorm": 1.0}, {"clipvalue": 0.1}]
)
def test_it_is_that_of_all_gradients_before_clipping(clipping):
    # sqrt(3^2 + 4^2 + 12^2)
    assert apply(AdamWithGradientNorm(**clipping), [3.0, 4.0], [-12.0]) == 13.0


def test_the_scale_of_the_loss_is_taken_out():
    assert apply(AdamWithGradientNorm(loss_scale_factor=4.0), [3.0, 4.0]) == 1.25


def test_weights_without_a_gradient_do_not_count():
    weights = [keras.Variable([1.0]), keras.Variable([1.0])]
    optimizer = AdamWithGradientNorm()
    with pytest.warns(UserWarning, match="Gradients do not exist"):
        optimizer.apply([None, ops.convert_to_tensor([-2.0])], weights)
    assert float(ops.convert_to_numpy(optimizer.gradient_norm)) == 2.0


def test_updates_are_those_of_adam():
    ours, theirs = (
        kind(0.1, beta_2=0.98, use_ema=True)
        for kind in (AdamWithGradientNorm, keras.optimizers.Adam)
    )
    weights = [keras.Variable([1.0, -2.0]) for _ in range(2)]
    for gradient in ([0.3, -1.0], [0.1, 2.0]):
        for optimizer, weight in zip((ours, theirs), weights, strict=True):
            optimizer.apply([ops.convert_to_tensor(gradient)], [weight])
    np.testing.assert_array_equal(*(ops.convert_to_numpy(weight) for weight in weights))


def test_in_fit():
    dense = keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")
    model = keras.Sequential([keras.Input((2,)), dense])
    model.compile(AdamWithGradientNorm(0.1), "mse")
    model.fit(np.array([[3.0, 4.0]]), np.array([1.0]), verbose=0)
    # The prediction is 0, so the gradient is 2 (0 - 1) (3, 4).
    norm = float(ops.convert_to_numpy(model.optimizer.gradient_norm))
    assert norm == pytest.approx(10.0)


@pytest.mark.parametrize(("clipping", "clipped"), [({}, 2.0), ({"global_clipnorm": 0.5}, 0.5)])
def test_gradients_of_one_row_looked_up_twice_add_up(clipping, clipped):
    # The mean of twice the same row is the row: the gradient is 2 (0 - 1) in it alone.
    layers = [
        keras.layers.Embedding(3, 1, embeddings_initializer="zeros"),
        keras.layers.GlobalAveragePooling1D(),
    ]
    model = keras.Sequential([keras.Input((2,), dtype="int32"), *layers])
    adam = AdamWithGradientNorm(1.0, beta_1=0.0, beta_2=0.0, epsilon=1.0, **clipping)
    model.compile(adam, "mse")
    model.fit(np.array([[2, 2]], "int32"), np.array([1.0]), verbose=0)
    assert float(ops.convert_to_numpy(adam.gradient_norm)) == pytest.approx(2.0)
    # Without momentum a step is g / (|g| + 1).
    expected = [0.0, 0.0, clipped / (clipped + 1)]
    np.testing.assert_allclose(model.get_weights()[0].ravel(), expected, rtol=1e-6)


def test_a_clipped_update_is_of_gradients_scaled_together():
    weights = [keras.Variable([0.0, 0.0]), keras.Variable([0.0])]
    adam = AdamWithGradientNorm(1.0, beta_1=0.0, beta_2=0.0, epsilon=1.0, global_clipnorm=1.3)
    adam.apply([ops.convert_to_tensor(row) for row in ([3.0, 4.0], [-12.0])], weights)
    found = np.concatenate([ops.convert_to_numpy(weight) for weight in weights])
    clipped = np.array([0.3, 0.4, -1.2])  # a tenth: the norm is 13
    np.testing.assert_allclose(found, -clipped / (np.abs(clipped) + 1), rtol=1e-6)


def test_its_config_gives_an_equal_optimizer():
    schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
    optimizer = AdamWithGradientNorm(schedule, beta_2=0.98, global_clipnorm=1.0, cooldown=0.3)
    config = keras.saving.serialize_keras_object(optimizer)
    restored = keras.saving.deserialize_keras_object(config)
    assert isinstance(restored, AdamWithGradientNorm)
    assert restored.get_config() == optimizer.get_config()


# The number of logical devices is fixed once per process, so this runs in one of its own.
PROGRAM = """
import keras, numpy as np, tensorflow as tf
from keras_transformer.optimizers import AdamWithGradientNorm

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
copy = tf.distribute.HierarchicalCopyAllReduce()
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], cross_device_ops=copy)
with strategy.scope():
    weight = keras.Variable([0.0, 0.0])
    optimizer = AdamWithGradientNorm(1.0, beta_1=0.0, beta_2=0.0, epsilon=1.0, global_clipnorm=0.8)
    optimizer.build([weight])


@tf.function
def step():
    replica = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, "float32")
    optimizer.apply([tf.stack([3.0 - 6.0 * replica, 4.0])], [weight])


strategy.run(step)
print(float(optimizer.gradient_norm.numpy()), *weight.numpy())
"""


@pytest.mark.slow
@pytest.mark.tensorflow
def test_of_replicas_norm_and_clipping_are_of_the_sum():
    done = run_python("-c", PROGRAM)
    norm, first, second = map(float, done.stdout.splitlines()[-1].split())
    # (3, 4) and (-3, 4) are (0, 8), clipped to (0, 0.8); without momentum a step is g / (|g| + 1).
    assert (norm, first) == (8.0, 0.0)
    assert second == pytest.approx(-0.8 / 1.8)


def test_a_cooldown_ends_with_the_last_update():
    adam = AdamWithGradientNorm(2.0, cooldown=0.25)
    adam.build([keras.Variable([0.0])])

    def factors():
        return [float(adam.cooldown_factor(step)) for step in (0, 14, 15, 16, 19, 20, 30)]

    assert factors() == [1.0] * 7  # before it is known when the training ends
    adam.last_update.assign(20)
    np.testing.assert_allclose(factors(), [1, 1, 1, 0.8, 0.2, 0, 0], rtol=1e-6)


def test_a_cooldown_scales_the_updates():
    adam = AdamWithGradientNorm(1.0, cooldown=0.5, beta_1=0.0, beta_2=0.0, epsilon=1.0)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False)])
    model.set_weights([np.zeros((1, 1))])
    model.compile(adam, "mae")
    adam.build(model.trainable_variables)
    adam.last_update.assign(4)
    found = []
    for _ in range(5):
        model.fit(np.ones((1, 1)), np.full((1, 1), 9.0), verbose=0)
        found.append(float(model.get_weights()[0][0, 0]))
    # The gradient is -1 and a step without momentum g / (|g| + 1), scaled by 1, 1, 1, 1/2 and 0.
    np.testing.assert_allclose(found, [0.5, 1.0, 1.5, 1.75, 1.75], rtol=1e-6)
    assert float(adam.learning_rate) == 0.0


def test_without_a_cooldown_it_has_the_variables_that_it_had():
    weight = keras.Variable([0.0])
    ours, theirs = AdamWithGradientNorm(), keras.optimizers.Adam()
    for optimizer in (ours, theirs):
        optimizer.build([weight])
    assert len(ours.variables) == len(theirs.variables) + 1  # the norm
    assert ours.last_update is None

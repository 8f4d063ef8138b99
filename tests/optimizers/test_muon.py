"""Muon against its formula in float64, Keras's Muon and Adam."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import models
from keras_transformer.optimizers import (
    AdamWithGradientNorm,
    Muon,
    newton_schulz,
    transformer_optimizer,
)


def orthogonalised(matrix):
    """Five steps of a x + b x^3 + c x^5 on the singular values of a matrix of norm 1."""
    left, values, right = np.linalg.svd(matrix / np.linalg.norm(matrix), full_matrices=False)
    for _ in range(5):
        values = 3.4445 * values - 4.7750 * values**3 + 2.0315 * values**5
    return left * values @ right


def gradients(shape, number=3, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.normal(size=shape).astype("float32") for _ in range(number)]


def updated(optimizer, *, name="kernel", side_by_side=None, steps):
    """A weight that began as zeros, after a step for each of the gradients."""
    weight = keras.Variable(np.zeros(steps[0].shape, "float32"), name=name)
    if side_by_side:
        weight.side_by_side = side_by_side
    for gradient in steps:
        optimizer.apply([ops.convert_to_tensor(gradient)], [weight])
    return ops.convert_to_numpy(weight)


@pytest.mark.parametrize("shape", [(6, 4), (4, 6), (5, 5), (3, 1)])
def test_newton_schulz_is_a_polynomial_of_the_singular_values(shape):
    (matrix,) = gradients(shape, 1)
    found = ops.convert_to_numpy(newton_schulz(ops.convert_to_tensor(matrix)))
    np.testing.assert_allclose(found, orthogonalised(matrix.astype("float64")), atol=1e-5)
    values = np.linalg.svd(found, compute_uv=False)
    assert values.min() > 0.6
    assert values.max() < 1.3


@pytest.mark.parametrize("parts", [(6,), (2, 2, 2), (1, 2, 3)])
def test_updates_follow_the_formula(parts):
    steps = gradients((4, 6))
    muon = Muon(0.1, momentum=0.9, rms_rate=0.3)
    found = updated(muon, side_by_side=parts, steps=steps)
    expected, momentum = np.zeros((4, 6)), np.zeros((4, 6))
    ends = np.cumsum(parts)[:-1]
    for gradient in steps:
        momentum = 0.9 * momentum + gradient
        directions = [
            orthogonalised(part) * max(part.shape) ** 0.5
            for part in np.split(gradient + 0.9 * momentum, ends, axis=1)
        ]
        expected -= 0.1 * 0.3 * np.concatenate(directions, axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_matrix_by_itself_is_updated_as_by_keras():
    theirs = keras.optimizers.Muon(0.1, weight_decay=None, adam_weight_decay=None)
    steps = gradients((4, 6))
    np.testing.assert_allclose(
        updated(Muon(0.1), steps=steps), updated(theirs, steps=steps), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("shape", "name"), [((6,), "bias"), ((4, 6), "embedding"), ((4, 6), "logits_kernel")]
)
def test_adam_updates_the_rest(shape, name):
    steps, options = gradients(shape), {"beta_2": 0.98, "global_clipnorm": 1.0}
    np.testing.assert_array_equal(
        updated(Muon(0.1, **options), name=name, steps=steps),
        updated(AdamWithGradientNorm(0.1, **options), name=name, steps=steps),
    )


def test_it_is_clipped_cooled_and_measured_as_adam():
    """A direction does not depend on the gradient's length, so clipping leaves it as it is."""
    (gradient,) = gradients((4, 6), 1)
    muon = Muon(0.1, cooldown=0.5, global_clipnorm=0.01)
    muon.build([keras.Variable(np.zeros((4, 6), "float32"), name="kernel")])
    muon.last_update.assign(2)
    once = updated(Muon(0.1), steps=[gradient])
    weight = muon._trainable_variables[0]
    muon.apply([ops.convert_to_tensor(gradient)])
    np.testing.assert_allclose(ops.convert_to_numpy(weight), once, rtol=1e-3)
    assert float(muon.gradient_norm) == pytest.approx(np.linalg.norm(gradient))
    muon.apply([ops.convert_to_tensor(gradient)])
    muon.apply([ops.convert_to_tensor(gradient)])  # the rate is 0 by now
    np.testing.assert_allclose(ops.convert_to_numpy(weight), 2 * once, rtol=1e-3)


def test_the_matrices_of_a_transformer_are_taken_apart():
    model = models.build_transformer(
        "tiny", vocabulary_size=9, num_encoder_layers=1, num_decoder_layers=1, hidden_dim=8,
        num_heads=2, key_dim=3, value_dim=5, use_bias=True, tie_weights=False,
    )  # fmt: skip
    muon = Muon()
    muon.build(model.trainable_variables)
    parts = {
        variable.path: each
        for variable, each in zip(model.trainable_variables, muon._parts, strict=True)
        if each is not None
    }
    found = sorted((path.split("/")[-2], each) for path, each in parts.items())
    encoder = [("contract", (8,)), ("expand", (256,)), ("output", (8,))]
    fused = ("query_key_value", (6, 6, 10))
    cross = [("key_value", (6, 10)), ("output", (8,)), ("query", (6,))]
    assert found == sorted([*encoder, fused, *encoder, fused, *cross])
    velocities = len(model.trainable_variables) - len(parts)
    assert sum(velocity is not None for velocity in muon._velocities) == velocities


def test_its_config_gives_an_equal_optimizer():
    optimizer = Muon(0.2, momentum=0.8, rms_rate=0.7, cooldown=0.3, beta_2=0.98)
    restored = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(optimizer))
    assert isinstance(restored, Muon)
    assert restored.get_config() == optimizer.get_config()


def test_a_model_is_saved_with_it_and_goes_on(tmp_path):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 4)), rng.normal(size=(8, 3))
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(Muon(0.01), "mse")
    model.fit(x, y, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(x, y, shuffle=False, verbose=0)
    for ours, theirs in zip(model.get_weights(), loaded.get_weights(), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_with_the_paper_s_schedule():
    optimizer = transformer_optimizer(128, "muon", warmup_steps=10, dtype="mixed_float16")
    muon = optimizer.inner_optimizer
    assert (muon.beta_2, muon.epsilon, muon.rms_rate) == (0.98, 1e-9, 0.5)
    assert muon.get_config()["learning_rate"]["config"]["warmup_steps"] == 10

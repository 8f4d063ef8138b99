"""R-Drop: a step that reads each batch twice."""

import functools

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import training
from keras_transformer.models import build_transformer
from tests.losses.test_cross_entropy import log_softmax
from tests.training.small_training import VOCABULARY_SIZE, batches, train
from tests.training.small_training import compiled as compiled_with

pytestmark = pytest.mark.core


class OddRows(keras.layers.Layer):
    """Dropout that is known: every other row is shifted in training, by a number of its own."""

    def call(self, inputs, training=None):
        if not training:
            return inputs
        is_odd = ops.arange(ops.shape(inputs)[0], dtype="int32") % 2
        return inputs + 0.5 * ops.cast(is_odd, "float32")[:, None, None] * ops.sin(inputs)


def shifted_model():
    keras.utils.set_random_seed(5)
    inputs = keras.Input((None,), dtype="int32")
    hidden = OddRows()(keras.layers.Embedding(VOCABULARY_SIZE, 8)(inputs))
    return keras.Model(inputs, keras.layers.Dense(VOCABULARY_SIZE)(hidden))


compiled = functools.partial(compiled_with, smoothing=0.0)


def one_batch():
    inputs, labels, weights = next(batches())
    weights[0, 3:] = 0
    return inputs, labels, weights


def step(trainer, batch):
    history = trainer.fit((batch for _ in range(1)), steps_per_epoch=1, verbose=0).history
    return {name: values[-1] for name, values in history.items()}


def test_the_loss_is_the_mean_of_both_passes_and_their_divergence():
    model, (inputs, labels, weights) = shifted_model(), one_batch()
    embedding, kernel, bias = (np.asarray(w, "float64") for w in model.get_weights())
    first = embedding[inputs]
    p, q = (log_softmax(x @ kernel + bias) for x in (first, first + 0.5 * np.sin(first)))
    at_labels = [np.take_along_axis(x, labels[..., None], -1)[..., 0] for x in (p, q)]
    nll = -(weights * sum(at_labels) / 2).sum()
    apart = ((np.exp(p) - np.exp(q)) * (p - q)).sum(-1) / 2
    logs = step(compiled(model, r_drop=4.0), (inputs, labels, weights))
    np.testing.assert_allclose(logs["step_loss"], nll, rtol=1e-5)
    np.testing.assert_allclose(logs["loss"], nll + 4.0 * (weights / 2 * apart).sum(), rtol=1e-5)


@pytest.mark.parametrize("weights", [np.ones(4), np.ones((4, 5))])
def test_padding_has_no_part_in_the_divergence(weights):
    """Weights of sentences count for their real tokens, as those of tokens do."""
    inputs, labels, _ = one_batch()
    labels[:3, 2:] = 0
    masked = (labels != 0).astype("float32")
    by_mask = step(compiled(shifted_model(), r_drop=4.0), (inputs, labels, masked))
    found = step(compiled(shifted_model(), r_drop=4.0), (inputs, labels, weights))
    assert found["loss"] > found["step_loss"]
    assert found == pytest.approx(by_mask, rel=1e-6)


def test_slices_keep_the_passes_of_a_row_together():
    one, several = (compiled(shifted_model(), accumulate=n, r_drop=4.0) for n in (1, 2))
    for _ in range(2):
        whole, sliced = step(one, one_batch()), step(several, one_batch())
        assert whole == pytest.approx(sliced, rel=1e-5)
    for weight, other in zip(one.get_weights(), several.get_weights(), strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-7)


def test_without_dropout_it_is_the_plain_step():
    def trained(r_drop):
        keras.utils.set_random_seed(5)
        sizes = {"hidden_dim": 8, "intermediate_dim": 8, "num_heads": 2, "dropout": 0.0}
        layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
        trainer = compiled(build_transformer(vocabulary_size=12, **sizes, **layers), r_drop=r_drop)
        ids, labels, weights = one_batch()
        logs = step(trainer, ({"source_ids": ids, "target_ids": ids}, labels, weights))
        return logs, trainer.get_weights()

    (plain_logs, plain), (paired_logs, paired) = trained(0.0), trained(5.0)
    assert paired_logs == pytest.approx(plain_logs, rel=1e-5)
    for weight, other in zip(plain, paired, strict=True):
        np.testing.assert_allclose(weight, other, rtol=1e-5, atol=1e-7)


def test_dropout_differs_between_the_passes():
    keras.utils.set_random_seed(5)
    inputs = keras.Input((None,), dtype="int32")
    hidden = keras.layers.Dropout(0.5)(keras.layers.Embedding(VOCABULARY_SIZE, 8)(inputs))
    trainer = compiled(keras.Model(inputs, keras.layers.Dense(VOCABULARY_SIZE)(hidden)), r_drop=1.0)
    logs = step(trainer, one_batch())
    assert logs["loss"] > logs["step_loss"] + 1e-4


def test_validation_reads_a_batch_once():
    trainer, batch = compiled(shifted_model(), r_drop=4.0), one_batch()
    plain = compiled(shifted_model())
    validate = {"steps": 1, "verbose": 0, "return_dict": True}
    expected = plain.evaluate((batch for _ in range(1)), **validate)
    assert trainer.evaluate((batch for _ in range(1)), **validate) == pytest.approx(expected)


def test_it_needs_weights_and_a_sum():
    trainer = training.training_model(shifted_model(), r_drop=1.0)
    with pytest.raises(ValueError, match="`loss` must be .* with reduction 'sum' .* r_drop=1.0"):
        trainer.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    trainer = compiled(shifted_model(), r_drop=1.0)
    with pytest.raises(ValueError, match="Batches must include weights"):
        trainer.fit((one_batch()[:2] for _ in range(1)), steps_per_epoch=1, verbose=0)
    with pytest.raises(ValueError, match="`r_drop` must be"):
        training.training_model(shifted_model(), r_drop=-1.0)


def test_a_run_trains_with_it(tmp_path):
    model = compiled(shifted_model(), r_drop=2.0)
    run, _ = train(tmp_path / "run", model, steps=4, save_every=2)
    assert run.record.steps == 4

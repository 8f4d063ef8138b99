"""Trainings on packed rows: the same updates, and one shape to compile."""

import keras
import numpy as np
import pytest

from keras_transformer.data import plan_batches
from keras_transformer.models import build_transformer
from keras_transformer.training import training_model
from keras_transformer.training.training_run import check_packing
from keras_transformer.types import SpecialTokens
from tests.data.corpora import random_corpus
from tests.models.test_packed_rows import KINDS, SIZES, both_ways
from tests.training.small_training import compiled

TOKENS = SpecialTokens()


def weighted(batch):
    source_ids, target_ids, labels = batch
    weights = (labels != TOKENS.pad) / np.float32((labels != TOKENS.pad).sum())
    return {"source_ids": source_ids, "target_ids": target_ids}, labels, weights


@pytest.mark.parametrize("kind", ["pre-norm", "learned", "words"])
def test_loss_and_gradients_are_those_of_rows_of_their_own(kind):
    model = build_transformer(**{"vocabulary_size": 21, **SIZES, **KINDS[kind]})
    results = []
    for graph, batch in zip((model.packed(), model), both_ways(), strict=True):
        exact = compiled(graph)
        logs = exact.test_on_batch(*weighted(batch), return_dict=True)
        results.append((logs, exact.gradients(weighted(batch))))
    (found_logs, found), (expected_logs, expected) = results
    for name in ("loss", "perplexity", "accuracy"):
        assert found_logs[name] == pytest.approx(expected_logs[name], rel=1e-5), name
    assert len(found) > 20
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_bfloat16_is_as_near_as_its_rounding():
    model = build_transformer(vocabulary_size=21, **SIZES, dtype="mixed_bfloat16")
    together, apart = (
        compiled(graph).test_on_batch(*weighted(batch), return_dict=True)
        for graph, batch in zip((model.packed(), model), both_ways(), strict=True)
    )
    assert together["loss"] == pytest.approx(apart["loss"], rel=2e-3)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_an_update_in_slices_is_that_of_rows_of_their_own(accumulate):
    batches = list(map(weighted, both_ways()))
    updated = []
    for is_packed, batch in zip((True, False), batches, strict=True):
        keras.utils.set_random_seed(4)
        model = build_transformer(vocabulary_size=21, **SIZES)
        inputs, labels, weights = batch
        rows = -(-len(labels) // accumulate) * accumulate - len(labels)
        inputs, labels, weights = keras.tree.map_structure(
            lambda array, rows=rows: np.pad(array, [(0, rows), (0, 0)]), (inputs, labels, weights)
        )
        graph = model.packed() if is_packed else model
        exact = compiled(graph, keras.optimizers.SGD(0.1), accumulate)
        exact.train_on_batch(inputs, labels, weights)
        updated.append(model.get_weights())
    for one, other in zip(*updated, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
@pytest.mark.tensorflow
@pytest.mark.parametrize("accumulate", [1, 2])
def test_steps_that_xla_compiles_are_those_of_tensorflow(accumulate):
    """The whole step, and the part that XLA compiles for each of several replicas."""
    import tensorflow as tf

    inputs, labels, weights = keras.tree.map_structure(
        lambda array: np.pad(array, [(0, 1), (0, 0)]), weighted(both_ways()[0])
    )
    updated = []
    for how in ("plain", "whole", "part"):
        keras.utils.set_random_seed(4)
        model, sgd = build_transformer(vocabulary_size=21, **SIZES), keras.optimizers.SGD(0.1)
        exact = compiled(model.packed(), sgd, accumulate, jit_compile=how == "whole")
        if how == "part":
            exact._replica_gradients = tf.function(
                exact._all_slices, jit_compile=True, autograph=False
            )
        logs = exact.train_on_batch(inputs, labels, weights, return_dict=True)
        updated.append([*model.get_weights(), *(logs[name] for name in sorted(logs))])
    for other in updated[1:]:
        for found, expected in zip(other, updated[0], strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_packed_batches_are_refused_by_other_models():
    reader = plan_batches(random_corpus(30), TOKENS, batch_tokens=256, packing=True)
    model = build_transformer(vocabulary_size=900, **SIZES)
    check_packing(training_model(model.packed()), [reader])
    others = [model, model.packed(SpecialTokens(bos=5))]
    for other in others:
        with pytest.raises(ValueError, match="Packed batches need a training model of"):
            check_packing(training_model(other), [reader])

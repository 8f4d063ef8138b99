"""Keras's `class_weight` is for one label per row; a Transformer refuses it."""

import keras
import numpy as np
import pytest

from keras_transformer import LabelSmoothingCrossEntropy, training
from keras_transformer.models import build_transformer

pytestmark = pytest.mark.core
IDS = np.array([[5, 6, 7], [8, 9, 2]], "int32")
BATCH = {"source_ids": IDS, "target_ids": IDS}


def compiled():
    model = build_transformer("tiny", vocabulary_size=20)
    model.compile("sgd", LabelSmoothingCrossEntropy())
    return model


def test_fit_and_train_on_batch_refuse_it_and_name_sample_weights():
    model = compiled()
    positional = [None, 1, 0, None, 0.0, None, True, {9: 2.0}]
    for call in (
        lambda: model.fit(BATCH, IDS, class_weight={9: 2.0}),
        lambda: model.fit(BATCH, IDS, *positional),
        lambda: model.train_on_batch(BATCH, IDS, class_weight={9: 2.0}),
    ):
        with pytest.raises(ValueError, match=r"`class_weight` must be None.*`sample_weight`"):
            call()
    model.fit(BATCH, IDS, class_weight=None, epochs=1, verbose=0)
    model.train_on_batch(BATCH, IDS)


@pytest.mark.skipif(keras.backend.backend() == "torch", reason="no trainings on PyTorch")
def test_so_does_a_model_of_exact_steps():
    model = training.training_model(build_transformer("tiny", vocabulary_size=20))
    model.compile("sgd", LabelSmoothingCrossEntropy())
    with pytest.raises(ValueError, match="`class_weight` must be None"):
        model.fit(BATCH, IDS, class_weight={9: 2.0})


def test_what_the_error_proposes():
    """Weights by label: the loss is the weighted mean over tokens."""
    model, weights = compiled(), np.ones(20, "float32")
    weights[9] = 3.0
    found = model.evaluate(BATCH, IDS, sample_weight=weights[IDS], verbose=0)
    losses = LabelSmoothingCrossEntropy(reduction="none")(IDS, model(BATCH))
    expected = (np.asarray(losses) * weights[IDS]).sum() / weights[IDS].sum()
    assert found == pytest.approx(expected, rel=1e-5)

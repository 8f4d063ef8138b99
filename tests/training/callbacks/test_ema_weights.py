"""The moving average before there is one."""

import math

import keras
import numpy as np
import pytest

from keras_transformer.optimizers import transformer_adam
from tests.training.equal_runs import rows
from tests.training.small_training import batches, loaded, small_model, train


def test_before_the_first_update_the_weights_are_validated_and_saved(tmp_path):
    """As with float16, the first step overflows, and updates nothing."""
    adam = transformer_adam(8, 5, 0.1, use_ema=True)
    optimizer = keras.optimizers.LossScaleOptimizer(adam, initial_scale=math.inf)
    model = small_model(optimizer)
    before, batch = model.get_weights(), next(batches())
    expected = model.evaluate((one for one in [batch]), verbose=0, return_dict=True)
    run, _ = train(tmp_path / "run", model, steps=1, save_every=1, validation=batch)
    assert int(adam.iterations.numpy()) == 0
    saved = loaded(run.directory, "step-00000001").get_weights()
    for ours, theirs in zip(before, saved, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    (row,) = rows(run.directory.validation_path)
    assert float(row["val_perplexity"]) == pytest.approx(expected["perplexity"], rel=1e-6)

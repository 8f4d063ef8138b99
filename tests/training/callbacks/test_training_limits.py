"""When a training ends, as its optimizer is told, and the learning rates that follow."""

import numpy as np
import pytest

from keras_transformer.optimizers import transformer_adam
from keras_transformer.training.callbacks.training_limits import Cooldown
from tests.training.equal_runs import rows
from tests.training.small_training import small_model, train


def cooling_model(warmup_steps=5, cooldown=0.5):
    return small_model(transformer_adam(8, warmup_steps, 0.1, cooldown=cooldown))


def told(callback, step):
    """What a callback tells the optimizer before an epoch that begins after some updates."""
    model = cooling_model()
    model.optimizer.build(model.trainable_variables)
    callback.set_model(model)
    callback.on_train_begin({"steps_done": step})
    callback.on_epoch_begin(0)
    return float(model.optimizer.last_update)


@pytest.mark.parametrize(
    ("steps", "minutes", "seconds", "done", "last"),
    [
        (40, None, 7.0, 0, 40),
        (40, None, 7.0, 10, 40),
        (None, 2, 7.0, 0, 0),  # no pace yet
        (None, 2, 30.0, 100, 400),  # 0.3 s an update
        (300, 2, 30.0, 100, 300),
        (500, 2, 30.0, 100, 400),
        (500, 2, 30.0, 0, 500),
    ],
)
def test_the_end_follows_from_the_limits_and_the_pace(steps, minutes, seconds, done, last):
    assert told(Cooldown(steps, minutes, lambda: seconds), done) == last


def test_machines_agree_on_it():
    assert told(Cooldown(None, 2, lambda: 30.0, agree=lambda updates: updates + 5), 100) == 405


def test_logged_learning_rates_fall_to_zero(tmp_path):
    train(tmp_path / "run", cooling_model(), steps=20, save_every=8, log_every=1)
    rates = [float(row["learning_rate"]) for row in rows(tmp_path / "run" / "metrics.csv")]
    updates = np.arange(1, 21)
    paper = 0.1 * 8**-0.5 * np.minimum(updates**-0.5, updates * 5**-1.5)
    left = np.minimum((20 - (updates - 1)) / 10, 1)
    np.testing.assert_allclose(rates, paper * left, rtol=1e-5)


def test_minutes_end_with_small_updates(tmp_path, slow_steps):
    """The rate falls to zero, though nobody knew how many updates there would be."""
    options = {"save_every": 10, "log_every": 1, "callbacks": [slow_steps]}
    run, model = train(tmp_path / "run", cooling_model(cooldown=0.9), minutes=8, **options)
    assert (run.record.stopped_because, run.record.steps) == ("minutes", 48)
    assert float(model.optimizer.last_update) == 48
    (*_, last) = rows(tmp_path / "run" / "metrics.csv")
    paper = 0.1 * 8**-0.5 * 48**-0.5
    assert float(last["learning_rate"]) == pytest.approx(paper / (0.9 * 48), rel=1e-4)

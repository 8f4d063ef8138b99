"""The clock that stands still while the process is stopped, whatever the system's clock says."""

import itertools
import signal
import time

import keras
import numpy as np

from keras_transformer.training.callbacks.step_callback import CLOCK, RunningClock
from keras_transformer.training.callbacks.training_limits import StopOnInterrupt
from keras_transformer.training.checkpoints.training_state import find_state
from tests.training.small_training import train


def test_a_stop_is_left_out(clock):
    running = RunningClock()
    began = running.seconds()
    clock.now += 5
    assert running.seconds() - began == 5
    clock.now += 3600
    running.went_on()
    clock.now += 2
    assert running.seconds() - began == 7
    assert running.stops == 1


def test_a_training_hears_that_its_process_went_on(clock):
    before = signal.getsignal(signal.SIGCONT)
    stops, began = CLOCK.stops, CLOCK.seconds()
    with StopOnInterrupt():
        clock.now += 3600
        signal.raise_signal(signal.SIGCONT)
        clock.now += 2
    assert (CLOCK.stops - stops, CLOCK.seconds() - began) == (1, 2)
    assert signal.getsignal(signal.SIGCONT) == before


def test_jumps_of_the_system_s_clock_change_nothing(tmp_path, monkeypatch):
    def trained(name):
        keras.utils.set_random_seed(1)
        path = tmp_path / name
        return train(path, steps=6, save_every=2, log_every=1, seed=3, deterministic=True)

    _, expected = trained("steady")
    jumps = itertools.cycle([0.0, 4.6e9, -1e9, 1.7e9])  # before 1970, after 2106
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    run, model = trained("jumping")
    for ours, theirs in zip(model.get_weights(), expected.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert find_state(run.directory).step == 6
    assert 0 < run.record.seconds < 1e8  # each jump is longer

"""The clock that stands still while the process is stopped."""

import signal
import types

import pytest

from keras_transformer.training.callbacks import step_callback
from keras_transformer.training.callbacks.step_callback import CLOCK, RunningClock
from keras_transformer.training.callbacks.training_limits import StopOnInterrupt


@pytest.fixture
def time(monkeypatch):
    """Stands for the `time` module: `time.now` is what the system's clock says."""
    time = types.SimpleNamespace(now=100.0, perf_counter=lambda: time.now)
    monkeypatch.setattr(step_callback, "time", time)
    return time


def test_a_stop_is_left_out(time):
    clock = RunningClock()
    began = clock.seconds()
    time.now += 5
    assert clock.seconds() - began == 5
    time.now += 3600
    clock.went_on()
    time.now += 2
    assert clock.seconds() - began == 7
    assert clock.stops == 1


def test_a_training_hears_that_its_process_went_on(time):
    before = signal.getsignal(signal.SIGCONT)
    stops, began = CLOCK.stops, CLOCK.seconds()
    with StopOnInterrupt():
        time.now += 3600
        signal.raise_signal(signal.SIGCONT)
        time.now += 2
    assert (CLOCK.stops - stops, CLOCK.seconds() - began) == (1, 2)
    assert signal.getsignal(signal.SIGCONT) == before

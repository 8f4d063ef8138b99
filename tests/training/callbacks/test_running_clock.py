"""The clock that stands still while the process is stopped."""

import signal

from keras_transformer.training.callbacks.step_callback import CLOCK, RunningClock
from keras_transformer.training.callbacks.training_limits import StopOnInterrupt


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

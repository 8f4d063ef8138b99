"""Small trainings in forks, which several files of tests stop in their own ways."""

import types

import keras
import pytest

from keras_transformer.training.callbacks import step_callback
from tests.forked_processes import ForkServer


class Trainings(ForkServer):
    """The program `killed_training`, on one backend."""

    def __init__(self, backend):
        super().__init__("tests.training.killed_training", backend)

    def run(self, path, kill=None, fill=None, **options):
        """Exit code and stderr of a training, new or gone on with."""
        return super().run(path=str(path), options=options, kill=kill, fill=fill)[:2]


@pytest.fixture
def clock(monkeypatch):
    """Stands for the `time` module: `clock.now` is what the system's clock says."""
    clock = types.SimpleNamespace(now=100.0, perf_counter=lambda: clock.now)
    monkeypatch.setattr(step_callback, "time", clock)
    return clock


@pytest.fixture
def slow_steps(clock):
    """A callback by which every step takes ten seconds."""

    def wait(batch, logs):
        clock.now += 10

    return keras.callbacks.LambdaCallback(on_train_batch_begin=wait)


@pytest.fixture(scope="session")
def trainings():
    """A function from a backend to its `Trainings`."""
    started = {}

    def on(backend="tensorflow"):
        if backend not in started:
            started[backend] = Trainings(backend)
        return started[backend]

    yield on
    for each in started.values():
        each.close()


@pytest.fixture(scope="session")
def whole(trainings, tmp_path_factory):
    """A training of 20 steps without a break: read it, change nothing."""
    path = tmp_path_factory.mktemp("whole") / "run"
    assert trainings().run(path, ema=True)[0] == 0
    return path

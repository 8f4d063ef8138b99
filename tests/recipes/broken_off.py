"""Trainings that are broken off, and the line that a broken one ends with."""

import signal

import keras


class Interrupt(keras.callbacks.Callback):
    """Ctrl-C at an update."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_batch_end(self, batch, logs=None):
        if self.model.optimizer.iterations == self.step:
            signal.raise_signal(signal.SIGINT)


def one_line(capsys):
    """What stderr says last; it is a single line behind `error:`."""
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error:")]
    assert len(lines) == 1
    return lines[0]

"""Two runs that must be equal to the last bit, but for what a clock says."""

import csv

import numpy as np

from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.checkpoints.training_state import find_state


def rows(path, left_out=()):
    with open(path, newline="") as file:
        return [
            {name: value for name, value in row.items() if name not in left_out}
            for row in csv.DictReader(file)
        ]


def arrays(state):
    with np.load(state.path) as file:
        return {name: file[name] for name, _, _ in state.variables}


def assert_equal_runs(path, reference):
    """Losses, validations, checkpoints and the last state are equal to the last bit."""
    run, other = RunDirectory.open(path), RunDirectory.open(reference)
    clock = ("seconds", "target_tokens_per_second", "step_seconds")
    for name in ("metrics.csv", "validation.csv"):
        assert rows(run.path / name, clock) == rows(other.path / name, clock)
    assert run.checkpoints.best_record() == other.checkpoints.best_record()
    names = [
        sorted(file.name for file in each.checkpoints.directory.iterdir()) for each in (run, other)
    ]
    assert names[0] == names[1]
    for checkpoint in ("best", run.checkpoints.paths()[-1].name.removesuffix(".weights.h5")):
        weights = [each.load_model(checkpoint).get_weights() for each in (run, other)]
        for ours, theirs in zip(*weights, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    ours, theirs = arrays(find_state(run)), arrays(find_state(other))
    assert ours.keys() == theirs.keys()
    for name in ours:
        np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)


def place(path):
    """The step of the last state, and whether a validation is to be done there."""
    state = find_state(RunDirectory.open(path))
    return state.step, state.progress["validation_due"]

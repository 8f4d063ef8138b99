"""Where a training begins: in a new run directory, or at the last state of one."""

import sys

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.training.states.training_state import check_same_settings, find_state

_MOST_STEPS = 2**31 - 1


def open_run(path, devices, *, settings, may_change=(), overwrite=False, resume=False):
    """Open the run directory of a training, and find the state to go on from; see `TrainingRun`.

    Returns `(run, state)`: the `RunDirectory`, and a `TrainingState`, or None where the training
    begins anew: the caller then calls `run.start`. Of several processes the chief alone writes,
    and all must see the same states.
    """
    if devices.is_chief:
        run = RunDirectory.create(path, overwrite=overwrite, resume=resume)
    else:
        run = RunDirectory(path)
    state = find_state(run) if resume else None
    _check_agreement(run, devices, state.step if state else 0)
    if state is None:
        if resume and devices.is_chief:
            print(f"There is no state in {run.path}: the training begins.", file=sys.stderr)
        return run, None
    run.check_no_links()
    _check_backend(run)
    check_same_settings(state.settings, settings, may_change)
    if devices.is_chief:
        print(f"Going on with {run.path} after step {state.step}.", file=sys.stderr)
    return run, state


def open_origin(path, run, state, resume):
    """Return the run that a training starts from, or None.

    A training that goes on from a state needs no other run. One that was broken off before its
    first checkpoint starts from what it began with, where `path` is None.
    """
    earlier = run.record().origin if run.is_run() else None
    if state is not None:
        if path is not None and str(path) != earlier:
            raise UserInputError(
                f"The run {run.path} started from {earlier or 'no other run'}. It cannot go on "
                f"--from {path}: leave that away."
            )
        return None
    if resume and path is None:
        path = earlier
    if path is None:
        return None
    origin = RunDirectory.open(path)
    if origin.path.resolve() == run.path.resolve():
        raise UserInputError(f"A training cannot start from the run it replaces: {run.path}")
    origin.find_weights()
    return origin


def _check_backend(run):
    """Refuse to go on with other random numbers and kernels."""
    began, now = run.record().versions.get("backend"), keras.backend.backend()
    if began != now:
        raise UserInputError(
            f"The training in {run.path} began on the backend {began} and cannot go on with {now}."
        )


def _check_agreement(run, devices, step):
    """Refuse to train where processes see different states: they would begin at different steps."""
    latest = devices.largest(step)
    earliest = _MOST_STEPS - devices.largest(_MOST_STEPS - step)
    if latest != earliest:
        raise UserInputError(
            f"The machines see different states of {run.path}, of steps {earliest} and {latest}: "
            "it must be on a file system that all of them share."
        )

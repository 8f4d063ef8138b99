"""Where a training begins: in a new run directory, or at the last state of one."""

import contextlib
import sys

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_lock import run_lock
from keras_transformer.training.states.training_state import check_same_settings, find_state

_MOST_STEPS = 2**31 - 1


def hold_run(path, devices):
    """Return a context in which no other training has a run directory, see `run_lock`.

    Args:
        path: the directory.
        devices: the `Devices`; of several processes the chief alone writes, and holds it for all.

    Raises:
        UserInputError: when it is entered, another process holds the directory.
    """
    return run_lock(path) if devices.is_chief else contextlib.nullcontext()


def open_run(path, devices, *, settings, may_change=(), overwrite=False, resume=False):
    """Open the run directory of a training, and find the state to go on from.

    Args:
        path: the directory.
        devices: the `Devices`; of several processes the chief alone writes.
        settings: those of the training, a JSON-compatible dictionary.
        may_change: names of settings that a training that goes on may have otherwise.
        overwrite: whether a run in it is replaced.
        resume: whether a run in it goes on.

    Returns:
        `(run, state)`: the `RunDirectory`, and a `TrainingState`, or None where the training begins
        anew: the caller then calls `run.start`.

    Raises:
        UserInputError: the directory holds something else; a run, and neither `overwrite` nor
            `resume` is given; a run with other settings or of another backend; or other states than
            the other processes see.

    Example:
        >>> run, state = open_run(  # doctest: +SKIP
        ...     "runs/first", start_devices(), settings={"seed": 1}, resume=True
        ... )
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

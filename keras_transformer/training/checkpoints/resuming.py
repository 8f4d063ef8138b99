"""The start of a training, in a new run directory or from the last state of an existing one.

The files of a resumed run are restored to what they were at that state.
"""

import csv
import os
from pathlib import Path

import keras

from keras_transformer.errors import UserInputError
from keras_transformer.files.standard_streams import note
from keras_transformer.files.whole_files import remove_left_over, write_text
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_records import BestRecord
from keras_transformer.training.checkpoints.training_state import (
    TrainingState,
    check_same_settings,
    find_state,
)
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.training_options import TrainingOptions
from keras_transformer.types import PathLike

_MOST_STEPS = 2**31 - 1


def open_run(
    path: PathLike, devices: Devices, options: TrainingOptions
) -> tuple[RunDirectory, TrainingState | None]:
    """Open the run directory of a training, and find the state to resume from; see `TrainingRun`.

    Without a state, the training starts from the beginning, and the caller calls `run.start`. Only
    the chief writes, and all processes must see the same states.
    """
    if devices.is_chief:
        run = RunDirectory.create(path, overwrite=options.overwrite, resume=options.resume)
    else:
        run = RunDirectory(path)
    state = find_state(run) if options.resume else None
    _check_agreement(run, devices, state.step if state else 0)
    if state is None:
        if options.resume and devices.is_chief:
            note(f"No state in {run.path} yet: the training begins.")
        return run, None
    run.check_no_links()
    _check_backend(run)
    check_same_settings(state.settings, options.settings or {}, options.may_change)
    if devices.is_chief:
        note(f"Resuming {run.path} after step {state.step}.")
    return run, state


def open_origin(
    run: RunDirectory, state: TrainingState | None, options: TrainingOptions
) -> RunDirectory | None:
    """Return the run that a training starts from, or None.

    A training that resumes from a state does not need one. A training that stopped before its
    first checkpoint starts from its recorded origin if the options name none.
    """
    path = options.origin
    if state is not None:
        earlier = run.record().origin
        if path is not None and str(path) != earlier:
            raise UserInputError(
                f"The run {run.path} started from {earlier or 'no other run'}. It cannot resume "
                f"--from {path}: omit --from."
            )
        return None
    if options.resume and path is None and run.is_run():
        path = run.record().origin
    if path is None:
        return None
    origin = RunDirectory.open(path)
    if origin.path.resolve() == run.path.resolve():
        raise UserInputError(f"A training cannot start from the run it replaces: {run.path}")
    origin.find_weights()
    if options.check_origin:
        options.check_origin(origin)
    return origin


def _check_backend(run: RunDirectory) -> None:
    """Refuse to resume on a different backend, whose random numbers and kernels differ."""
    began, now = run.record().versions.get("backend"), keras.backend.backend()
    if began != now:
        raise UserInputError(
            f"The training in {run.path} began on the backend {began} and cannot resume on {now}."
        )


def _check_agreement(run: RunDirectory, devices: Devices, step: int) -> None:
    """Refuse to train if processes see different states: they would begin at different steps."""
    latest = devices.largest(step)
    earliest = _MOST_STEPS - devices.largest(_MOST_STEPS - step)
    if latest != earliest:
        raise UserInputError(
            f"The machines see different states of {run.path}, of steps {earliest} and {latest}: "
            "it must be on a file system that all machines share."
        )


def rewind(run: RunDirectory, state: TrainingState) -> None:
    """Undo what a training wrote in a run after the state that it resumes from.

    A training may be killed between any two files of a checkpoint. The state is written last, so
    the files that it refers to exist, and newer files will be written again.
    """
    for directory in (run.path, run.checkpoints.directory):
        remove_left_over(directory)
    for path in [*run.checkpoints.paths(), *run.checkpoints.states()]:
        if step_of(path) > state.step:
            path.unlink()
    validated = state.step - 1 if state.progress["validation_due"] else state.step
    cut_rows(run.metrics_path, state.step)
    for path in (run.validation_path, run.layers_path, run.dev_samples_path):
        cut_rows(path, validated)
    _restore_best(run, state.progress["best"])


def cut_rows(path: Path, step: int) -> None:
    """Remove a CSV file's rows whose first column is above `step`, and an unfinished last row."""
    if not path.is_file():
        if os.path.lexists(path) and not path.is_dir():
            path.unlink()  # a pipe, or a broken link: rows must not go there
        return
    try:
        text = path.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")] or [""]
        cells = list(csv.reader(lines, strict=True))
        if any(len(row) != len(cells[0]) for row in cells):
            raise ValueError("its rows and its header have different numbers of columns")
        kept = [line for line, row in zip(lines[1:], cells[1:], strict=True) if int(row[0]) <= step]
    except (ValueError, IndexError, csv.Error) as error:
        raise UserInputError(
            f"{path} is damaged: {' '.join(str(error).split())}. Repair it, or remove it: it is a "
            "log, which the training does not need."
        ) from error
    write_text(path, lines[0] + "".join(kept))  # even if nothing changes: it may have been a link


def _restore_best(run: RunDirectory, record: BestRecord) -> None:
    """Restore best.json and best.weights.h5."""
    checkpoints = run.checkpoints
    kept = record.get("kept", [])
    paths = [checkpoints.path_of(each["step"]) for each in kept]
    whole = checkpoints.whole([path for path in paths if path.is_file()])
    kept = [each for each, path in zip(kept, paths, strict=True) if path in whole]
    if not kept:
        checkpoints.best_record_path.unlink(missing_ok=True)
        checkpoints.best_path.unlink(missing_ok=True)
        return
    run.checksums.copy(whole[0], checkpoints.best_path)
    checkpoints.write_best_record({**record, **kept[0], "kept": kept})

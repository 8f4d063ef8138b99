"""Return of a run's files to what they were at a state."""

import csv
import os
from pathlib import Path

from keras_transformer.errors import UserInputError
from keras_transformer.files.whole_files import remove_left_over, write_text
from keras_transformer.runs.run_checkpoints import step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_records import BestRecord
from keras_transformer.training.states.training_state import TrainingState


def rewind(run: RunDirectory, state: TrainingState) -> None:
    """Undo what a training wrote in a run after the state that it resumes from.

    A kill may come between any two files of a checkpoint. The state is written last, so the files
    that it refers to exist, and newer ones will be written again.
    """
    for directory in (run.path, run.checkpoints.directory):
        remove_left_over(directory)
    for path in [*run.checkpoints.paths(), *run.checkpoints.states()]:
        if step_of(path) > state.step:
            path.unlink()
    validated = state.step - 1 if state.progress["validation_due"] else state.step
    cut_rows(run.metrics_path, state.step)
    for path in (run.validation_path, run.layers_path):
        cut_rows(path, validated)
    _restore_best(run, state.progress["best"])


def cut_rows(path: Path, step: int) -> None:
    """Remove the rows of a CSV file after `step`, its first column, and an unfinished last row."""
    if not path.is_file():
        if os.path.lexists(path) and not path.is_dir():
            path.unlink()  # a pipe, or a link to nothing: rows must not go there
        return
    try:
        text = path.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines(keepends=True) if line.endswith("\n")] or [""]
        cells = list(csv.reader(lines, strict=True))
        if any(len(row) != len(cells[0]) for row in cells):
            raise ValueError("its rows have other columns than its header")
        kept = [line for line, row in zip(lines[1:], cells[1:], strict=True) if int(row[0]) <= step]
    except (ValueError, IndexError, csv.Error) as error:
        raise UserInputError(
            f"{path} is damaged: {' '.join(str(error).split())}. Mend it, or remove it: it is a "
            "log, and the training does without."
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

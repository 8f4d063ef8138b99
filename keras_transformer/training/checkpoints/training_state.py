"""Training states on disk, from which training resumes with bit-identical results.

When a run is resumed, its files are restored to their contents at the time of the state.
"""

import csv
import json
import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Annotated, Any

import keras
import msgspec
import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.files import note, remove_left_over, tell, whole_file, write_text
from keras_transformer.input_files import (
    DAMAGED,
    open_archive,
    read_archive_record,
    read_array,
    to_record,
    write_archive,
)
from keras_transformer.runs.checksums import ADVICE, RunChecksums
from keras_transformer.runs.model_weights import load_weights, trains_adapters_alone
from keras_transformer.runs.run_checkpoints import BASE, step_of
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.runs.run_records import BestRecord, Progress, Step
from keras_transformer.training.devices.devices import Devices
from keras_transformer.training.training_options import TrainingOptions
from keras_transformer.types import PathLike

STATE_FORMAT = 1
KEPT_STATES = 2
WEIGHTS = "weights"  # prefix in the names of a state's arrays


class TrainingState(msgspec.Struct, frozen=True):
    """The training state after some updates, as recorded in its file.

    The file also contains the current weights (even with `ema`), the dropout seeds and the
    optimizer variables, which `restore` reads. `variables` lists the name, shape and dtype of each
    variable. If only adapters are trained, the other weights are in `base.weights.h5`.
    """

    path: Path
    format: int
    step: Step
    settings: dict[str, Any] | None
    data_fingerprint: str | None
    progress: dict[str, Any]
    variables: list[tuple[str, list[Annotated[int, msgspec.Meta(ge=0)]], str]]

    def restore(self, model: keras.Model) -> None:
        """Restore a model and its optimizer. The model must be compiled as in the saved run."""
        if not model.optimizer.built:
            model.optimizer.build(model.trainable_variables)
        variables = _variables(model)
        self._check(variables)
        if trains_adapters_alone(model):
            self._restore_base(model)
        try:
            with open_archive(self.path) as archive:
                for name, variable in variables:
                    dtype = keras.ops.convert_to_numpy(variable).dtype
                    array = read_array(archive, name, variable.shape, dtype.itemsize)
                    # NumPy writes non-native types, such as bfloat16, as plain bytes.
                    variable.assign(array.view(dtype))
        except DAMAGED as error:
            raise UserInputError(f"The state {self.path} is damaged: {error}.") from error
        if hasattr(model, "after_restore"):
            model.after_restore()

    def _restore_base(self, model: keras.Model) -> None:
        base = self.path.with_name(BASE)
        if not base.is_file() or RunChecksums(base.parents[1]).is_damaged(base):
            raise UserInputError(f"{base} is missing or damaged. {ADVICE}")
        load_weights(model, base)

    def _check(self, variables: list[tuple[str, keras.Variable]]) -> None:
        ours = [(name, tuple(v.shape), str(v.dtype)) for name, v in variables]
        theirs = [(name, tuple(shape), dtype) for name, shape, dtype in self.variables]
        if ours == theirs:
            return
        different = sorted(set(ours) ^ set(theirs))
        name, shape, _ = different[0]
        raise UserInputError(
            f"The state {self.path} belongs to a different model or optimizer: {len(different)} "
            f"variables differ, such as {name} of shape {shape}."
        )


def find_state(run: RunDirectory) -> TrainingState | None:
    """Return the newest undamaged state of a run.

    The result is None if training stopped before its first checkpoint. Training then starts from
    the beginning, and nothing is lost. A damaged state is reported on stderr, and the previous
    state is used.

    Raises:
        UserInputError: no state is left to resume from, but the run contains weights, which a fresh
            start would remove.
    """
    paths = run.checkpoints.states()
    advice = "Start a new run from its weights with --from, or replace it with --overwrite."
    checkpoints = {*run.checkpoints.directory.glob("*.weights.h5")} - {run.checkpoints.base_path}
    has_weights = bool(run.final_weights() or checkpoints)
    for path in reversed(paths):
        try:
            state = _read(run, path)
        except _Damaged as error:
            tell(f"{path} is damaged: {error}. Using the previous state, if there is one.")
        else:
            if state.step == 0 and path != paths[-1]:
                if has_weights:
                    raise UserInputError(
                        f"The run {run.path} has weights, but only the state from its start to "
                        f"resume from. {advice}"
                    )
                tell("This is the first state: training starts from the beginning.")
            return state if state.step else None
    if paths:
        raise UserInputError(f"Every state of the run {run.path} is damaged. {advice}")
    if has_weights:
        raise UserInputError(
            f"The run {run.path} has weights, but no state to resume from. {advice}"
        )
    return None


def check_same_settings(
    earlier: dict[str, Any] | None, settings: dict[str, Any], may_differ: Collection[str] = ()
) -> None:
    """Refuse to resume with different settings, except those in `may_differ`.

    Settings that an older version lacked count as disabled: None, False or 0. If `earlier` is None,
    nothing is compared.
    """
    if earlier is None:
        return
    name = "residual_connection"
    if name in settings:  # None means plain
        earlier, settings = (
            {**values, name: values.get(name) or "plain"} for values in (earlier, settings)
        )
    different = [
        f"`{name}` was {_json(earlier, name)} and is {_json(settings, name)}"
        for name in sorted({*earlier, *settings} - set(may_differ))
        if not _is_same(earlier, settings, name) and (name in earlier or settings[name])
    ]
    if different:
        raise UserInputError(
            f"Training cannot resume with different settings: {', '.join(different)}."
        )


def check_same_data(state: TrainingState, data_fingerprint: str | None) -> None:
    """Refuse to resume with different text, tokenizers or batches."""
    if state.data_fingerprint != data_fingerprint:
        raise UserInputError(
            f"Training cannot resume from {state.path} with different text, tokenizers or "
            "batches: their fingerprint has changed."
        )


def save_state(
    run: RunDirectory,
    step: int,
    model: keras.Model | None,
    *,
    weights: Sequence[np.ndarray] | None = None,
    settings: dict[str, Any] | None,
    data_fingerprint: str | None,
    progress: dict[str, Any],
) -> None:
    """Write the state of a run. Without `model`, only record that training has started.

    If the model contains averaged weights, `weights` are the weights to resume from.
    """
    path = run.checkpoints.state_path(step)
    variables = _variables(model) if model is not None else []
    record = {
        "format": STATE_FORMAT,
        "step": step,
        "settings": settings,
        "data_fingerprint": data_fingerprint,
        "progress": progress,
        "variables": [(name, tuple(v.shape), str(v.dtype)) for name, v in variables],
    }
    given = {f"{WEIGHTS}/{number}": value for number, value in enumerate(weights or ())}
    arrays = (
        (name, given[name] if name in given else keras.ops.convert_to_numpy(variable))
        for name, variable in variables
    )
    with whole_file(path, run.checksums.keeping(path)) as file:
        write_archive(file, record, arrays)


def remove_old_states(run: RunDirectory, breaks: Collection[int]) -> None:
    """Remove the states of the steps in `breaks` and all but the last two remaining states."""
    paths = run.checkpoints.states()
    kept = [path for path in paths if step_of(path) not in breaks][-KEPT_STATES:]
    run.checksums.remove(*(path for path in paths if path not in kept))


class _Damaged(Exception):
    pass


def _read(run: RunDirectory, path: Path) -> TrainingState:
    if run.checksums.is_damaged(path):
        raise _Damaged("its checksum is wrong")
    try:
        with open_archive(path) as archive:
            if archive.testzip() is not None:  # the checksum itself may be missing
                raise _Damaged("its content is not what was written")
            content = read_archive_record(archive, path)
    except DAMAGED as error:
        raise _Damaged("it is incomplete") from error
    if not isinstance(content, dict):
        raise _Damaged("its record is not what was written")
    version = content.get("format")
    if isinstance(version, int) and version > STATE_FORMAT:
        raise UserInputError(
            f"The state {path} has format {version}; this keras_transformer reads {STATE_FORMAT} "
            "and older. Install a newer version."
        )
    try:
        state = to_record(path, {**content, "path": path}, TrainingState)
        to_record(path, state.progress, Progress)
    except UserInputError as error:
        raise _Damaged("its record is not what was written") from error
    if state.step != step_of(path):
        raise _Damaged(f"it is the state of step {state.step}")
    return state


def _variables(model: keras.Model) -> list[tuple[str, keras.Variable]]:
    """Return the names and variables of everything that updates change, in a fixed order.

    The names are numbers, because Keras names layers differently in a second model of the same
    process.
    """
    fixed = model.non_trainable_weights if trains_adapters_alone(model) else []
    in_base = {id(variable) for variable in fixed}
    groups = {
        WEIGHTS: model.trainable_variables,
        "other": [each for each in model.non_trainable_variables if id(each) not in in_base],
        "optimizer": model.optimizer.variables,
    }
    return [
        (f"{group}/{number}", variable)
        for group, variables in groups.items()
        for number, variable in enumerate(variables)
    ]


def _is_same(earlier: dict[str, Any], settings: dict[str, Any], name: str) -> bool:
    """Whether two values of a setting are equal. Unlike in JSON, 1 equals 1.0."""
    if name not in earlier or name not in settings:
        return False
    return json.loads(_json(earlier, name)) == json.loads(_json(settings, name))


def _json(settings: dict[str, Any], name: str) -> str:
    return json.dumps(settings[name]) if name in settings else "not given"


_MOST_STEPS = 2**31 - 1


def open_run(
    path: PathLike, devices: Devices, options: TrainingOptions
) -> tuple[RunDirectory, TrainingState | None]:
    """Open a run directory for training, and find the state for resuming; see `TrainingRun`.

    Without a state, training starts from the beginning, and the caller calls `run.start`. Only the
    chief writes, and all processes must see the same states.
    """
    if devices.is_chief:
        run = RunDirectory.create(path, overwrite=options.overwrite, resume=options.resume)
    else:
        run = RunDirectory(path)
    state = find_state(run) if options.resume else None
    _check_agreement(run, devices, state.step if state else 0)
    if state is None:
        if options.resume and devices.is_chief:
            note(f"No state in {run.path} yet: training starts from the beginning.")
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
    """Return the run that training starts from, or None.

    Resuming from a state does not need that run. Training that stopped before its first
    checkpoint uses its recorded origin if the options do not specify one.
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
        raise UserInputError(f"Training cannot start from the run that it replaces: {run.path}")
    origin.find_weights()
    if options.check_origin:
        options.check_origin(origin)
    return origin


def _check_backend(run: RunDirectory) -> None:
    """Refuse to resume on a different backend, whose random numbers and kernels would differ."""
    began, now = run.record().versions.get("backend"), keras.backend.backend()
    if began != now:
        raise UserInputError(
            f"Training in {run.path} started on the backend {began} and cannot resume on {now}."
        )


def _check_agreement(run: RunDirectory, devices: Devices, step: int) -> None:
    """Refuse to train if processes find different states and would start at different steps."""
    latest = devices.largest(step)
    earliest = _MOST_STEPS - devices.largest(_MOST_STEPS - step)
    if latest != earliest:
        raise UserInputError(
            f"The machines see different states of {run.path}, of steps {earliest} and {latest}: "
            "it must be on a file system that all machines share."
        )


def rewind(run: RunDirectory, state: TrainingState) -> None:
    """Undo everything that training wrote to a run after the state that it resumes from.

    Training may be killed between any two files of a checkpoint. The state is written last, so the
    files that it references exist, and newer files will be rewritten.
    """
    for directory in (run.path, run.checkpoints.directory):
        remove_left_over(directory)
    paths = [*run.checkpoints.paths(), *run.checkpoints.states()]
    run.checksums.remove(*(path for path in paths if step_of(path) > state.step))
    validated = state.step - 1 if state.progress["validation_due"] else state.step
    cut_rows(run.metrics_path, state.step)
    for path in (run.validation_path, run.layers_path, run.dev_samples_path):
        cut_rows(path, validated)
    _restore_best(run, state.progress["best"])


def cut_rows(path: Path, step: int) -> None:
    """Remove CSV rows with a first column above `step`, and an incomplete last row."""
    if not path.is_file():
        if os.path.lexists(path) and not path.is_dir():
            path.unlink()  # a pipe or a broken link, which must not be written to
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
            "log, which training does not need."
        ) from error
    write_text(path, lines[0] + "".join(kept))  # even if unchanged: the path may be a link


def _restore_best(run: RunDirectory, record: BestRecord) -> None:
    """Restore best.json and best.weights.h5."""
    checkpoints = run.checkpoints
    kept = record.get("kept", [])
    paths = [checkpoints.path_of(each["step"]) for each in kept]
    whole = checkpoints.whole([path for path in paths if path.is_file()])
    kept = [each for each, path in zip(kept, paths, strict=True) if path in whole]
    if not kept:
        run.checksums.remove(checkpoints.best_record_path, checkpoints.best_path)
        return
    run.checksums.copy(whole[0], checkpoints.best_path)
    checkpoints.write_best_record({**record, **kept[0], "kept": kept})

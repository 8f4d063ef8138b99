"""Reads the checkpoints and the training time from JoeyNMT's log."""

import dataclasses
import datetime
import re
from collections.abc import Iterable

_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) - \w+ - [\w.]+ - (.*)")
_SAVED = re.compile(r"Checkpoint saved in (.*)/(\d+)\.ckpt")
_PARAMETERS = re.compile(r"Total params: (\d+)")
_PERPLEXITY = re.compile(r"ppl: +([\d.]+|inf|nan)")


@dataclasses.dataclass(frozen=True)
class LoggedCheckpoint:
    """A JoeyNMT checkpoint, written after a validation.

    Args:
        updates: number of previous weight updates.
        seconds: previous training time in seconds, without validations and writing.
    """

    updates: int
    seconds: float


@dataclasses.dataclass(frozen=True)
class TrainingLog:
    """The record of a training run.

    Args:
        parameters: number of weights; None until the model is built.
        checkpoints: the checkpoints so far, in order, excluding the one at the end of training,
            which does not follow a validation.
        validation_seconds: time spent on validations and on writing checkpoints.
    """

    parameters: int | None
    checkpoints: list[LoggedCheckpoint]
    validation_seconds: float

    def first_after(self, minutes: float) -> LoggedCheckpoint | None:
        """Return the first checkpoint after the given minutes of training, or None."""
        return next((one for one in self.checkpoints if one.seconds >= minutes * 60), None)


def read_training_log(lines: Iterable[str]) -> TrainingLog:
    """Read JoeyNMT's `train.log`. Training may still be running.

    The clock starts with the first epoch. It pauses from the start of each validation until the
    checkpoint is written.

    Example:
        >>> log = read_training_log([
        ...     "2026-11-23 02:00:00,000 - INFO - joeynmt.training - EPOCH 1",
        ...     "2026-11-23 02:00:30,500 - INFO - joeynmt.prediction - Predicting 20 example(s)",
        ...     "2026-11-23 02:00:40,000 - INFO - joeynmt.training - Checkpoint saved in m/5.ckpt.",
        ... ])
        >>> log.checkpoints
        [LoggedCheckpoint(updates=5, seconds=30.5)]
        >>> log.validation_seconds
        9.5
    """
    parameters: int | None = None
    checkpoints = []
    started: datetime.datetime | None = None
    validating: datetime.datetime | None = None  # start of the current validation
    paused = 0.0
    for line in lines:
        found = _LINE.match(line)
        if found is None:
            continue
        time, message = datetime.datetime.fromisoformat(found[1].replace(",", ".")), found[2]
        if size := _PARAMETERS.match(message):
            parameters = int(size[1])
        elif message.startswith("EPOCH ") and started is None:
            started = time
        elif message.startswith("Predicting "):
            validating = time
        elif (saved := _SAVED.match(message)) and started is not None and validating is not None:
            seconds = (validating - started).total_seconds() - paused
            checkpoints.append(LoggedCheckpoint(int(saved[2]), seconds))
            paused += (time - validating).total_seconds()
            validating = None
    return TrainingLog(parameters, checkpoints, paused)


def read_perplexity(output: str) -> float | None:
    """Return the perplexity that JoeyNMT prints when scoring references, or None if missing.

    Example:
        >>> read_perplexity("Evaluation result (scoring) loss:  41.20, ppl:  24.31, acc:   0.41.")
        24.31
    """
    for line in reversed(output.splitlines()):
        if "Evaluation result (scoring)" in line and (found := _PERPLEXITY.search(line)):
            return float(found[1])
    return None

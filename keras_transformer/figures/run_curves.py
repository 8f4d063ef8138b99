"""Curves from the logs of a run over its steps, without a plotting library."""

import csv
import dataclasses
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from keras_transformer.errors import UserInputError
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import PathLike

Metric: TypeAlias = Literal["loss", "perplexity", "bleu", "learning_rate"]
Axis: TypeAlias = Literal["step", "minutes", "tokens"]
METRICS: tuple[Metric, ...] = ("loss", "perplexity", "bleu", "learning_rate")
AXES: tuple[Axis, ...] = ("step", "minutes", "tokens")
_OF_METRICS = {"loss": "loss", "learning_rate": "learning_rate"}  # columns of metrics.csv
_OF_VALIDATION = {"perplexity": "val_perplexity", "bleu": "val_bleu"}  # of validation.csv
_SMOOTHED = 9  # points in a mean
# How all plots of curves are drawn.
WIDE = 20  # times the least value: beyond this, the axis is logarithmic
MOST_MARKS = 40  # beyond this, a line has no points


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """The finite values of one metric, (points,) each.

    Args:
        step, minutes, tokens: where the values were measured: updates, minutes of wall-clock time
            since the start of training, and target tokens trained on.
        values: the values.
    """

    step: np.ndarray
    minutes: np.ndarray
    tokens: np.ndarray
    values: np.ndarray

    def smoothed(self) -> np.ndarray:
        """The mean of each value and its neighbors, up to four on each side: (points,)."""
        around = _SMOOTHED // 2
        return np.array(
            [
                self.values[max(0, place - reach) : place + reach + 1].mean()
                for place in range(len(self.values))
                for reach in [min(around, place, len(self.values) - 1 - place)]
            ]
        )


@dataclasses.dataclass(frozen=True, eq=False)
class RunCurves:
    """The curves of a run.

    Args:
        path: the path of the run, as given.
        curves: a `Curve` for each of `METRICS` that was measured: `loss` and `learning_rate` of
            single updates, `perplexity` and `bleu` of validations.
    """

    path: str
    curves: Mapping[Metric, Curve]

    @classmethod
    def read(cls, path: PathLike) -> "RunCurves":
        """Read `metrics.csv` and `validation.csv` of a run.

        Minutes come from the validations, which record wall-clock time. They are interpolated
        between validations, and the time of the steps is added after the last validation. Tokens
        are computed from the logged speed.

        Raises:
            UserInputError: `path` is not a run directory, its logs are empty, or a file is damaged.

        Example:

        ```python
        RunCurves.read("runs/en_de").curves["bleu"].values[-1]  # that of the last validation
        ```
        """
        run = RunDirectory.open(path)
        metrics = _columns(run.metrics_path)
        validation = _columns(run.validation_path)
        if not len(metrics.get("step", ())):
            raise UserInputError(
                f"The run {path} has no metrics.csv with values: it was not trained here, or its "
                "training has not begun."
            )
        steps = metrics["step"]
        passed = np.diff(steps, prepend=0.0)
        spent = passed * _known(metrics, "step_seconds")  # seconds of the steps alone
        tokens = np.cumsum(spent * _known(metrics, "target_tokens_per_second"))
        clock = _clock(steps, np.cumsum(spent), validation)

        def curve(table: Mapping[str, np.ndarray], column: str) -> Curve | None:
            known = np.isfinite(table.get(column, np.empty(0)))
            if not known.any():
                return None
            at = table["step"][known]
            so_far = np.interp(at, [0, *steps], [0, *tokens])
            return Curve(at, np.interp(at, *clock) / 60, so_far, table[column][known])

        found = {name: curve(metrics, column) for name, column in _OF_METRICS.items()}
        found |= {name: curve(validation, column) for name, column in _OF_VALIDATION.items()}
        return cls(
            os.fspath(path),
            {name: each for name in METRICS if (each := found[name]) is not None},
        )


def short_names(paths: Sequence[str]) -> list[str]:
    """Paths without the folder that they all share.

    Example:
        >>> short_names(["runs/a", "runs/b"]), short_names(["runs/a/"]), short_names([])
        (['a', 'b'], ['a'], [])
    """
    whole = [os.path.abspath(path) for path in paths]
    folder = os.path.commonpath([os.path.dirname(path) for path in whole]) if whole else ""
    return [os.path.relpath(path, folder) for path in whole]


def _columns(path: Path) -> dict[str, np.ndarray]:
    """The columns of a log whose first column is `step`; empty cells are NaN."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            header, *rows = list(csv.reader(file)) or [["step"]]
        if header[:1] != ["step"]:
            raise ValueError("its first column is not `step`")
        # While training runs, the last row may be unfinished.
        rows = [row for row in rows if len(row) == len(header)]
        cells = [[float(cell or math.nan) for cell in row] for row in rows]
    except FileNotFoundError:
        return {}
    except (ValueError, csv.Error) as error:
        raise UserInputError(f"{path} is damaged: {error}") from error
    table = np.array(cells, "float64").reshape(len(cells), len(header))
    return dict(zip(header, table.T, strict=True))


def _known(table: Mapping[str, np.ndarray], column: str) -> np.ndarray:
    """A column with 0 for unknown values."""
    return np.nan_to_num(table.get(column, np.zeros(len(table["step"]))))


def _clock(
    steps: np.ndarray, spent: np.ndarray, validation: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and the wall-clock seconds at each step: two arrays to interpolate between.

    Args:
        steps: the steps of metrics.csv.
        spent: the total seconds of the steps up to each step, without validations.
        validation: the columns of validation.csv.
    """
    is_timed = "seconds" in validation
    at = np.array([0.0, *(validation["step"] if is_timed else ())])
    seconds = np.array([0.0, *(validation["seconds"] if is_timed else ())])
    later = steps > at[-1]
    since = spent[later] - np.interp(at[-1], [0, *steps], [0, *spent])
    return np.append(at, steps[later]), np.append(seconds, seconds[-1] + since)

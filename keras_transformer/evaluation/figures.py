"""Figure style and training-curve plots."""

import array
import contextlib
import csv
import dataclasses
import io
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import UserInputError
from keras_transformer.input_files import MOST_BYTES, open_ordinary, reading
from keras_transformer.installation import requiring
from keras_transformer.runs.run_directory import RunDirectory
from keras_transformer.types import PathLike

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_STYLE = "keras_transformer.evaluation.house"  # matplotlib's name for `house.mplstyle`
DOTS_AN_INCH = 300  # in a PNG
_MOST_DOTS = 9000  # on the longer side; drawing needs 300 MB


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Apply the package's style to figures created and written in this context.

    Raises:
        UserInputError: matplotlib (the `plots` extra) is not installed.

    Example:
        >>> with figure_style():
        ...     new_figure(4, 3).subplots().spines["top"].get_visible()
        False
    """
    with requiring("plots", "A figure needs matplotlib"):
        import matplotlib.figure
        import matplotlib.style
    with matplotlib.style.context(_STYLE):
        yield


def new_figure(width: float, height: float, **options: Any) -> "Figure":
    """Create a figure of the given size. Call this function within `figure_style`.

    Args:
        width, height: size in inches.
        **options: further arguments of `matplotlib.figure.Figure`, such as `layout`.
    """
    from matplotlib.figure import Figure  # not pyplot, which keeps all figures in memory

    return Figure(figsize=(width, height), **options)


def figure_file(figure: "Figure", file_format: str) -> bytes:
    """Return a figure as the contents of a file.

    Args:
        figure: the figure.
        file_format: "svg" or "pdf" for vector graphics, or "png" with 300 dots per inch, reduced if
            a side would exceed 9,000 dots.
    """
    dots = min(DOTS_AN_INCH, _MOST_DOTS / max(figure.get_size_inches()))
    content = io.BytesIO()
    with figure_style():
        figure.savefig(content, format=file_format, dpi=dots)
    return content.getvalue()


_DISTANCES = (5, 12, 22, 34, 48)  # distances of names from their points, in 1/72 inch
_DIRECTIONS = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
_ACROSS = {1: "left", 0: "center", -1: "right"}
_ABOVE = {1: "bottom", 0: "center", -1: "top"}
_POINT = 4.0  # half the width of a data point, in dots
_WITHOUT_LINE = 12  # names farther away are connected to their points


class PointLabel(NamedTuple):
    """The name and position of a point, in axis units."""

    text: str
    x: float
    y: float
    color: str


def label_points(figure: "Figure", axes: "Axes", labels: Sequence[PointLabel]) -> None:
    """Write names next to points, each at the nearest free position.

    Call this function when the limits, scales and legend of the axes are final. A name without a
    free position is placed at the first position.

    Args:
        figure: figure that contains the axes.
        axes: axes in which the points are drawn.
        labels: the names.
    """
    from matplotlib.text import Text

    if not labels:
        return
    figure.draw_without_rendering()  # lay out the axes
    dots = figure.dpi / 72  # per point
    frame = np.array(axes.get_window_extent().extents)
    places = axes.transData.transform([(label.x, label.y) for label in labels])
    taken = [np.array([*place - _POINT, *place + _POINT]) for place in places]
    if legend := axes.get_legend():
        taken.append(np.array(legend.get_window_extent().extents))
    for label, place in zip(labels, places, strict=True):
        text = Text(text=label.text, fontsize="small", parse_math=False, figure=figure)
        size = np.array(text.get_window_extent().size)
        options = [
            (right, up, distance, _box(place, right, up, distance * dots, size))
            for distance in _DISTANCES
            for right, up in _DIRECTIONS
        ]
        right, up, distance, box = next(
            (option for option in options if _is_free(option[-1], frame, taken)), options[0]
        )
        taken.append(box)
        line = {"arrowstyle": "-", "color": label.color, "linewidth": 0.5, "shrinkB": 3}
        axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(distance * right, distance * up),
            textcoords="offset points",
            horizontalalignment=_ACROSS[right],
            verticalalignment=_ABOVE[up],
            fontsize="small",
            color=label.color,
            parse_math=False,  # names may contain any characters
            in_layout=False,
            arrowprops=line if distance > _WITHOUT_LINE else None,
        )


def _box(place: np.ndarray, right: int, up: int, distance: float, size: np.ndarray) -> np.ndarray:
    """Return the left, bottom, right and top of a name in dots."""
    directions = np.array([right, up])
    start = place + distance * directions + size * (directions - 1) / 2
    return np.concatenate([start, start + size])


def _is_free(box: np.ndarray, frame: np.ndarray, taken: Sequence[np.ndarray]) -> bool:
    """Return whether a box is within the frame and does not overlap any other box."""
    is_within = (box[:2] >= frame[:2]).all() and (box[2:] <= frame[2:]).all()
    return bool(is_within) and not any(
        (box[:2] < other[2:]).all() and (other[:2] < box[2:]).all() for other in taken
    )


Metric: TypeAlias = Literal["loss", "perplexity", "bleu", "learning_rate"]
Axis: TypeAlias = Literal["step", "minutes", "tokens"]
METRICS: tuple[Metric, ...] = ("loss", "perplexity", "bleu", "learning_rate")
AXES: tuple[Axis, ...] = ("step", "minutes", "tokens")
_OF_METRICS = {"loss": "loss", "learning_rate": "learning_rate"}  # columns of metrics.csv
_OF_VALIDATION = {"perplexity": "val_perplexity", "bleu": "val_bleu"}  # of validation.csv
_SMOOTHED = 9  # points in a mean
# Settings shared by all curve plots.
WIDE = 20  # ratio of largest to smallest value above which the axis is logarithmic
MOST_MARKS = 40  # a line with more points has no markers


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """The finite values of a metric, in arrays of shape (points,).

    Args:
        step, minutes, tokens: when each value was measured, in updates, in minutes of wall-clock
            time since the start of training, and in target tokens trained on.
        values: the values.
    """

    step: np.ndarray
    minutes: np.ndarray
    tokens: np.ndarray
    values: np.ndarray

    def smoothed(self) -> np.ndarray:
        """Return the mean of each value and up to four neighbors on each side: (points,)."""
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
        path: path of the run, as given.
        curves: a `Curve` for each measured metric in `METRICS`: `loss` and `learning_rate` of
            individual updates, `perplexity` and `bleu` of validations.
    """

    path: str
    curves: Mapping[Metric, Curve]

    @classmethod
    def read(cls, path: PathLike) -> "RunCurves":
        """Read the `metrics.csv` and `validation.csv` files of a run.

        Minutes are taken from the validations, which record wall-clock time. They are interpolated
        between validations, and step times are added after the last validation. Tokens are computed
        from the logged speed.

        Raises:
            UserInputError: `path` is not a run directory, its logs are empty, or a file is damaged.

        Example:

        ```python
        RunCurves.read("runs/en_de").curves["bleu"].values[-1]  # from the last validation
        ```
        """
        run = RunDirectory.open(path)
        metrics = _columns(run.metrics_path)
        validation = _columns(run.validation_path)
        if not len(metrics.get("step", ())):
            raise UserInputError(
                f"The run {path} has no metrics.csv with values: it was trained elsewhere, or "
                "training has not started."
            )
        steps = metrics["step"]
        passed = np.diff(steps, prepend=0.0)
        spent = passed * _known(metrics, "step_seconds")  # seconds spent in steps only
        tokens = np.cumsum(spent * _known(metrics, "target_tokens_per_second"))
        progress = np.append(0.0, steps), np.append(0.0, tokens)
        clock = _clock(steps, np.cumsum(spent), validation)

        def curve(table: Mapping[str, np.ndarray], column: str) -> Curve | None:
            known = np.isfinite(table.get(column, np.empty(0)))
            if not known.any():
                return None
            at = table["step"][known]
            so_far = np.interp(at, *progress)
            return Curve(at, np.interp(at, *clock) / 60, so_far, table[column][known])

        found = {name: curve(metrics, column) for name, column in _OF_METRICS.items()}
        found |= {name: curve(validation, column) for name, column in _OF_VALIDATION.items()}
        return cls(
            os.fspath(path),
            {name: each for name in METRICS if (each := found[name]) is not None},
        )


def short_names(paths: Sequence[str]) -> list[str]:
    """Return the paths relative to their common parent folder.

    Example:
        >>> short_names(["runs/a", "runs/b"]), short_names(["runs/a/"]), short_names([])
        (['a', 'b'], ['a'], [])
    """
    whole = [os.path.abspath(path) for path in paths]
    folder = os.path.commonpath([os.path.dirname(path) for path in whole]) if whole else ""
    return [os.path.relpath(path, folder) for path in whole]


_LARGEST = 1e100  # largest number in a figure; Matplotlib's ticks overflow earlier


def _columns(path: Path) -> dict[str, np.ndarray]:
    """Read a log whose first column is `step`. Empty cells and huge numbers become NaN."""
    if not os.path.lexists(path):
        return {}
    cells = array.array("d")
    try:
        with reading(path), io.TextIOWrapper(open_ordinary(path), "utf-8", newline="") as file:
            if os.fstat(file.fileno()).st_size > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_BYTES >> 20} MB")
            rows = csv.reader(file)
            header = next(rows, ["step"])
            if header[:1] != ["step"]:
                raise ValueError("its first column is not `step`")
            for row in rows:
                if len(row) == len(header):  # during training, the last row may be incomplete
                    cells.extend(float(cell or math.nan) for cell in row)
    except UserInputError:
        raise
    except (ValueError, csv.Error) as error:
        raise UserInputError(f"{path} is damaged: {error}") from error
    table = np.array(cells).reshape(-1, len(header))
    table[np.abs(table) > _LARGEST] = np.nan
    return dict(zip(header, table.T, strict=True))


def _known(table: Mapping[str, np.ndarray], column: str) -> np.ndarray:
    """Return a column, with 0 for unknown values."""
    return np.nan_to_num(table.get(column, np.zeros(len(table["step"]))))


def _clock(
    steps: np.ndarray, spent: np.ndarray, validation: Mapping[str, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and the wall-clock seconds at each step as two arrays for interpolation.

    Args:
        steps: the steps of metrics.csv.
        spent: total seconds spent in steps up to each step, without validations.
        validation: the columns of validation.csv.
    """
    is_timed = "seconds" in validation
    at = np.array([0.0, *(validation["step"] if is_timed else ())])
    seconds = np.array([0.0, *(validation["seconds"] if is_timed else ())])
    later = steps > at[-1]
    since = spent[later] - np.interp(at[-1], np.append(0.0, steps), np.append(0.0, spent))
    return np.append(at, steps[later]), np.append(seconds, seconds[-1] + since)


_LABELS = {
    "loss": "training loss (nats per target token)",
    "perplexity": "dev perplexity (per subword)",
    "bleu": "dev BLEU, greedy search (0 to 100)",
    "learning_rate": "learning rate",
}
_TITLES = {
    "loss": "final training loss",
    "perplexity": "final dev perplexity",
    "bleu": "final dev BLEU",
    "learning_rate": "learning rate",
}
_FORMATS = {"loss": ".3f", "perplexity": ".2f", "bleu": ".1f", "learning_rate": ".3g"}
_AXIS_LABELS = {
    "step": "updates",
    "minutes": "training time with validations (minutes)",
    "tokens": "target tokens (millions)",
}
_LONGEST = 28  # maximum characters of a run's name
_NOTE = "Compare perplexity and BLEU only between runs with the same vocabulary and dev text."


def run_figure(
    runs: Sequence[RunCurves],
    metrics: Sequence[Metric] = METRICS,
    *,
    axis: Axis = "step",
) -> "Figure":
    """Plot the curves of runs, with a panel per metric and a line per run.

    Training loss includes label smoothing: a faint line shows individual updates, and a second line
    shows the mean of nine neighboring values. Titles name the run with the best final value.

    Args:
        runs: the curves of the runs.
        metrics: metrics to plot, from `METRICS`. Metrics that no run has measured are omitted.
        axis: the horizontal axis: "step", "minutes" or "tokens".

    Returns:
        A `matplotlib.figure.Figure`; see `figure_file`.

    Raises:
        UserInputError: no run has measured any of the metrics, or matplotlib (the `plots` extra)
            is not installed.

    Example:

    ```python
    figure = run_figure([RunCurves.read("runs/a"), RunCurves.read("runs/b")], ["bleu"])
    pathlib.Path("bleu.svg").write_bytes(figure_file(figure, "svg"))
    ```
    """
    check_one_of("axis", axis, AXES)
    drawn = [name for name in metrics if any(name in run.curves for run in runs)]
    if not drawn:
        raise UserInputError(
            f"No run has measured {' or '.join(metrics)}. Received: "
            f"{', '.join(run.path for run in runs)}"
        )
    names = [
        name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"
        for name in short_names([run.path for run in runs])
    ]
    across = min(2, len(drawn))
    down = -(-len(drawn) // across)
    with figure_style():
        figure = new_figure(4.6 * across + 0.4, 3.1 * down + 0.6, layout="constrained")
        panels = list(figure.subplots(down, across, squeeze=False).flat)
        for panel, metric in zip(panels, drawn, strict=False):
            _draw(panel, runs, metric, axis)
            panel.set_title(_finding(runs, names, metric), parse_math=False)
        for panel in panels[len(drawn) :]:
            panel.set_axis_off()
        if len(runs) > 1:
            _add_legend(figure, panels[0], names)
            if {"perplexity", "bleu"} & {*drawn}:
                figure.supxlabel(_NOTE, x=0.01, ha="left", fontsize=8)
    return figure


def _draw(axes: Any, runs: Sequence[RunCurves], metric: Metric, axis: Axis) -> None:
    """Draw the lines of one metric. Runs without the metric still use up a color."""
    for run in runs:
        curve = run.curves.get(metric)
        if curve is None:
            axes.plot([], [])
            continue
        x = getattr(curve, axis)
        if metric == "loss":
            (line,) = axes.plot(x, curve.smoothed())
            same = {"color": line.get_color(), "linestyle": line.get_linestyle()}
            axes.plot(x, curve.values, alpha=0.25, linewidth=0.8, **same)
        else:
            is_dotted = metric in ("perplexity", "bleu") and len(x) <= MOST_MARKS
            axes.plot(x, curve.values, marker="o" if is_dotted else "")
    values = [run.curves[metric].values for run in runs if metric in run.curves]
    least, most = min(map(min, values)), max(map(max, values))
    if metric == "perplexity" and 0 < WIDE * least < most:
        axes.set_yscale("log")
    elif metric != "perplexity":
        axes.set_ylim(bottom=min(0, least))
    axes.set_xlim(left=0)
    if axis != "minutes":
        axes.xaxis.set_major_formatter("{x:,.0f}" if axis == "step" else _in_millions)
    axes.set_ylabel(_LABELS[metric])
    axes.set_xlabel(_AXIS_LABELS[axis])


def _in_millions(tokens: float, _: int) -> str:
    return f"{tokens / 1e6:g}"


def _add_legend(figure: "Figure", axes: Any, names: Sequence[str]) -> None:
    """Add a legend of runs above all panels, using the opaque lines of one panel."""
    lines = [line for line in axes.lines if line.get_alpha() is None]
    places = [str(number) for number in range(len(names))]
    legend = figure.legend(lines, places, loc="outside upper left", ncols=min(4, len(names)))
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)  # names may contain any characters
        text.set_text(name)


def _finding(runs: Sequence[RunCurves], names: Sequence[str], metric: Metric) -> str:
    """Return the title of a panel: the best final value, or the peak, and its run."""
    ends = [
        (_end(run.curves[metric], metric), name)
        for run, name in zip(runs, names, strict=True)
        if metric in run.curves
    ]
    is_more = metric in ("bleu", "learning_rate")
    value, name = max(ends) if is_more else min(ends)
    if len(runs) == 1:
        title, whose = ("peak " if metric == "learning_rate" else "") + _TITLES[metric], ""
    else:
        title, whose = ("highest " if is_more else "lowest ") + _TITLES[metric], f" ({name})"
    return f"{title[0].upper()}{title[1:]}: {value:{_FORMATS[metric]}}{whose}"


def _end(curve: Curve, metric: Metric) -> float:
    """Return the final value or, for the learning rate, the highest value."""
    if metric == "learning_rate":
        return float(curve.values.max())
    return float((curve.smoothed() if metric == "loss" else curve.values)[-1])

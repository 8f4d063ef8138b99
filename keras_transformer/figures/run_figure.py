"""The figure that compares the training of several runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import UserInputError
from keras_transformer.figures.figure_style import figure_style, new_figure
from keras_transformer.figures.run_curves import (
    AXES,
    METRICS,
    MOST_MARKS,
    WIDE,
    Axis,
    Curve,
    Metric,
    RunCurves,
    short_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
_LONGEST = 28  # letters in a run's name
_NOTE = "Compare perplexity and BLEU only between runs with the same vocabulary and dev text."


def run_figure(
    runs: Sequence[RunCurves],
    metrics: Sequence[Metric] = METRICS,
    *,
    axis: Axis = "step",
) -> "Figure":
    """Draw the curves of runs, with a panel for each metric and a line for each run.

    Training loss is the loss of single updates, with label smoothing: a faint line, and a line for
    the mean of nine neighboring values. Titles name the run with the best final value.

    Args:
        runs: the curves of the runs.
        metrics: what to draw, from `METRICS`. Metrics that no run has measured are left out.
        axis: the horizontal axis: "step", "minutes" or "tokens".

    Returns:
        A `matplotlib.figure.Figure`; see `figure_file`.

    Raises:
        UserInputError: no run has measured any of the metrics, or matplotlib, from the extra
            `plots`, is not installed.

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
    """Draw the lines of one metric; a run without it keeps its place in the colour cycle."""
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
    """Name the runs above all panels, with the lines of one panel that are not faint."""
    lines = [line for line in axes.lines if line.get_alpha() is None]
    places = [str(number) for number in range(len(names))]
    legend = figure.legend(lines, places, loc="outside upper left", ncols=min(4, len(names)))
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set_parse_math(False)  # runs may have any name
        text.set_text(name)


def _finding(runs: Sequence[RunCurves], names: Sequence[str], metric: Metric) -> str:
    """What a panel shows: the best final value, or the peak, and its run."""
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
    """The final value; for the learning rate, the highest value."""
    if metric == "learning_rate":
        return float(curve.values.max())
    return float((curve.smoothed() if metric == "loss" else curve.values)[-1])

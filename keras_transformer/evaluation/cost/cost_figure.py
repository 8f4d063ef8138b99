"""BLEU over the cost of the training: the paper's Table 2 as a figure, with runs."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.distribution import pip_install
from keras_transformer.errors import UserInputError
from keras_transformer.evaluation.cost.training_cost import PAPER_TABLE_2, RunCost, paper_bleu

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAPER, _RUNS = "#1d66d0", "#16803f"
# Where a name is, seen from its point; names at the upper right of all would hide each other.
_RIGHT_UP, _RIGHT_DOWN, _LEFT_UP, _LEFT_DOWN = (1, 1), (1, -1), (-1, 1), (-1, -1)
_PLACES = {
    "en_de": {"ConvS2S Ensemble": _LEFT_UP, "GNMT + RL Ensemble": _RIGHT_DOWN, "MoE": _RIGHT_DOWN},
    "en_fr": {
        "MoE": _LEFT_UP,
        "ConvS2S Ensemble": _LEFT_UP,
        "GNMT + RL Ensemble": _LEFT_DOWN,
        "Deep-Att + PosUnk Ensemble": _RIGHT_DOWN,
    },
}
_WAYS = (("counted_flops", "^", "counted"), ("paper_flops", "D", "the paper's way"))
_ROOM = 0.25  # of the width, for names at the right


def cost_figure(costs: Sequence[RunCost]) -> "Figure":
    """Draw BLEU over floating-point operations, on logarithmic axes.

    Above are the paper's English-French models, below its English-German ones, at their costs as
    printed. A run is below: a triangle at its counted operations and a diamond at those by the
    paper's way, as far as they are known. What lacks BLEU or cost is named.

    Args:
        costs: the runs.

    Returns:
        A `matplotlib.figure.Figure`; its `savefig` writes PNG, PDF and SVG.

    Raises:
        UserInputError: matplotlib, of the extra `plots`, is not installed.

    Example:
        >>> figure = cost_figure([RunCost("runs/mine", bleu=25.0, counted_flops=2e18)])
        >>> figure.axes[1].texts[-1].get_text()
        'mine'

    Reference: Vaswani et al. (2017), Table 2.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UserInputError(f"A figure needs matplotlib: {pip_install('plots')}") from error
    figure = Figure(figsize=(9, 8), layout="constrained")
    above, below = figure.subplots(2, 1)
    left_out = _draw_paper(above, "en_fr", "EN-FR") + _draw_paper(below, "en_de", "EN-DE")
    lines = [f"without a cost in the paper: {', '.join(left_out)}"]
    if without := _draw_runs(below, costs):
        lines.append(f"without cost or BLEU: {', '.join(without)}")
    for axes in (above, below):
        axes.set_xscale("log")
        least, most = axes.dataLim.intervalx
        axes.set_xlim(right=most * (most / least) ** _ROOM)
        axes.margins(y=0.12)
        axes.set_ylabel("BLEU")
        axes.grid(alpha=0.25)
        axes.legend(loc="best")
    figure.suptitle("BLEU over training cost: Table 2 of Vaswani et al. (2017), newstest2014")
    below.set_xlabel("\n".join(["training cost (FLOPs)", *lines]))
    return figure


def _draw_paper(axes: Any, field: str, label: str) -> list[str]:
    """Draw the paper's rows of a pair of languages; returns those without cost."""
    rows = [
        (row.model, paper_bleu(getattr(row, f"bleu_{field}")), getattr(row, f"flops_{field}"))
        for row in PAPER_TABLE_2
    ]
    known = [row for row in rows if None not in row]
    axes.scatter(
        [x for _, _, x in known],
        [y for _, y, _ in known],
        color=_PAPER,
        label=f"the paper, {label}",
    )
    for name, y, x in known:
        _annotate(axes, name, x, y, _PAPER, _PLACES[field].get(name, _RIGHT_UP))
    return [f"{name} ({label} {y:g})" for name, y, x in rows if y is not None and x is None]


def _draw_runs(axes: Any, costs: Sequence[RunCost]) -> list[str]:
    """Draw the runs; returns those without cost or BLEU."""
    names = dict(zip(costs, _short_names([cost.run for cost in costs]), strict=True))
    drawn = {cost: flops for cost in costs if cost.bleu is not None and (flops := _known(cost))}
    for field, marker, label in _WAYS:
        known = [cost for cost in drawn if getattr(cost, field) is not None]
        if known:
            axes.scatter(
                [getattr(cost, field) for cost in known],
                [cost.bleu for cost in known],
                marker=marker,
                color=_RUNS,
                label=f"runs on their own text, {label}",
            )
    for cost, flops in drawn.items():
        axes.plot(flops, [cost.bleu] * len(flops), color=_RUNS, linewidth=1)
        _annotate(axes, names[cost], flops[-1], cost.bleu, _RUNS, _RIGHT_UP)
    return [names[cost] for cost in costs if cost not in drawn]


def _known(cost: RunCost) -> list[float]:
    """The costs of a run that are known, the least first."""
    return sorted(flops for flops in (cost.counted_flops, cost.paper_flops) if flops is not None)


def _short_names(paths: Sequence[str]) -> list[str]:
    """Paths without the folder that all of them share.

    Example:
        >>> _short_names(["runs/a", "runs/b"]), _short_names(["runs/a/"]), _short_names([])
        (['a', 'b'], ['a'], [])
    """
    whole = [os.path.abspath(path) for path in paths]
    folder = os.path.commonpath([os.path.dirname(path) for path in whole]) if whole else ""
    return [os.path.relpath(path, folder) for path in whole]


def _annotate(
    axes: Any, name: str, x: float, y: float | None, color: str, place: tuple[int, int]
) -> None:
    right, up = place
    axes.annotate(
        name,
        (x, y),
        xytext=(5 * right, 4 * up),
        textcoords="offset points",
        horizontalalignment="left" if right > 0 else "right",
        verticalalignment="bottom" if up > 0 else "top",
        fontsize="small",
        color=color,
        parse_math=False,  # a run may be named as it likes
    )

"""BLEU over training cost: the paper's Table 2 as a figure, with runs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from keras_transformer.evaluation.cost.training_cost import PAPER_TABLE_2, RunCost, paper_bleu
from keras_transformer.figures import (
    PointLabel,
    figure_style,
    label_points,
    new_figure,
    short_names,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_PAPER, _RUNS = "#0072b2", "#d55e00"
_WAYS = (("counted_flops", "^", "counted"), ("paper_flops", "D", "the paper's way"))
_OF_WORDS = ("13a", "intl", "none")  # sacrebleu's tokenizers whose BLEU counts words


def cost_figure(costs: Sequence[RunCost]) -> "Figure":
    """Draw BLEU over floating-point operations, on logarithmic axes.

    The upper panel has the paper's English-French models, and the lower panel its English-German
    models, at the costs printed there. Runs are in the lower panel: a triangle at the counted
    operations and a diamond at the operations estimated in the paper's way, if known. Models and
    runs without BLEU or cost are only named. So are runs whose BLEU counts something other than
    words, such as characters, as it cannot be compared with WMT scores.

    Args:
        costs: the runs.

    Returns:
        A `matplotlib.figure.Figure`; its `savefig` writes PNG, PDF and SVG.

    Raises:
        UserInputError: matplotlib, from the extra `plots`, is not installed.

    Example:
        >>> figure = cost_figure([RunCost("runs/mine", bleu=25.0, counted_flops=2e18)])
        >>> figure.axes[1].texts[-1].get_text()
        'mine'

    Reference: Vaswani et al. (2017), Table 2.
    """
    with figure_style():
        figure = new_figure(9, 8, layout="constrained")
        above, below = figure.subplots(2, 1)
        above_names, left_out = _draw_paper(above, "en_fr", "EN-FR")
        below_names, more_left_out = _draw_paper(below, "en_de", "EN-DE")
        run_names, without, of_others = _draw_runs(below, costs)
        lines = [f"without a cost in the paper: {', '.join(left_out + more_left_out)}"]
        if without:
            lines.append(f"without cost or BLEU: {', '.join(without)}")
        if of_others:
            lines.append(f"not drawn, BLEU of another tokenizer: {', '.join(of_others)}")
        for axes, title in (
            (above, _finding("EN-FR", "en_fr")),
            (below, _finding("EN-DE", "en_de")),
        ):
            axes.set_title(title)
            axes.set_xscale("log")
            axes.margins(x=0.12, y=0.15)
            axes.set_ylabel("BLEU (0 to 100)")
            axes.legend(loc="best")
        figure.suptitle("BLEU over training cost: Table 2 of Vaswani et al. (2017), newstest2014")
        below.set_xlabel("\n".join(["training cost (FLOPs)", *lines]), parse_math=False)
        label_points(figure, above, above_names)
        label_points(figure, below, [*below_names, *run_names])
    return figure


def _finding(label: str, field: str) -> str:
    """What the paper's rows show: the best model, and the cost of the best other model."""
    rows = [
        (row.model, paper_bleu(getattr(row, f"bleu_{field}")) or 0, getattr(row, f"flops_{field}"))
        for row in PAPER_TABLE_2
    ]
    rows = [row for row in rows if row[2] is not None]
    ours = max(rows, key=lambda row: row[1])
    other = max((row for row in rows if "Transformer" not in row[0]), key=lambda row: row[1])
    return (
        f"{label}: {ours[0]} has the best BLEU ({ours[1]:g}) at 1/{other[2] / ours[2]:.0f} of "
        f"the cost of {other[0]}"
    )


def _draw_paper(axes: Any, field: str, label: str) -> tuple[list[PointLabel], list[str]]:
    """Draw the paper's rows for a language pair; returns the names with and without cost."""
    rows = [
        (row.model, paper_bleu(getattr(row, f"bleu_{field}")), getattr(row, f"flops_{field}"))
        for row in PAPER_TABLE_2
    ]
    known = [(name, y, x) for name, y, x in rows if y is not None and x is not None]
    axes.scatter(
        [x for _, _, x in known],
        [y for _, y, _ in known],
        color=_PAPER,
        label=f"the paper, {label}",
    )
    names = [PointLabel(name, x, y, _PAPER) for name, y, x in known]
    return names, [f"{name} ({label} {y:g})" for name, y, x in rows if y is not None and x is None]


def _draw_runs(
    axes: Any, costs: Sequence[RunCost]
) -> tuple[list[PointLabel], list[str], list[str]]:
    """Draw the runs whose BLEU counts words.

    Returns:
        The names of these runs; the names of runs without cost or BLEU; and the names of runs whose
        BLEU counts something else, such as characters, with the tokenizer.
    """
    names = dict(zip(costs, short_names([cost.run for cost in costs]), strict=True))
    known = {cost: flops for cost in costs if cost.bleu is not None and (flops := _known(cost))}
    drawn = {cost: flops for cost, flops in known.items() if _tokenizer(cost) in _OF_WORDS}
    for field, marker, label in _WAYS:
        points = [cost for cost in drawn if getattr(cost, field) is not None]
        if points:
            axes.scatter(
                [getattr(cost, field) for cost in points],
                [cost.bleu for cost in points],
                marker=marker,
                color=_RUNS,
                label=f"runs on their own text, {label}",
            )
    labels = []
    for cost, flops in drawn.items():
        bleu = cost.bleu or 0.0
        axes.plot(flops, [bleu] * len(flops), color=_RUNS, linestyle="-", linewidth=1)
        labels.append(PointLabel(names[cost], flops[-1], bleu, _RUNS))
    return (
        labels,
        [names[cost] for cost in costs if cost not in known],
        [f"{names[cost]} (tok:{_tokenizer(cost)})" for cost in known if cost not in drawn],
    )


def _tokenizer(cost: RunCost) -> str:
    """The tokenizer in the signature of a run's BLEU; sacrebleu's default if it has none."""
    parts = dict(part.split(":", 1) for part in (cost.signature or "").split("|") if ":" in part)
    return parts.get("tok", _OF_WORDS[0])


def _known(cost: RunCost) -> list[float]:
    """The known costs of a run, lowest first."""
    return sorted(flops for flops in (cost.counted_flops, cost.paper_flops) if flops is not None)

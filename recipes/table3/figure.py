"""The figure of the table: how far each row is from base, here and in the paper."""

import io
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_transformer.files import write_bytes
from recipes.table3.row_result import RowResult
from recipes.table3.rows import ROWS

_HERE, _PAPER = "#1f77b4", "#b0b0b0"
_HEIGHT = 0.38  # of a bar, in rows
_SYMBOLS = {
    "encoder_layers": "N",
    "hidden_dim": "$d_{model}$",
    "intermediate_dim": "$d_{ff}$",
    "num_heads": "h",
    "dropout": "$P_{drop}$",
    "label_smoothing": r"$\epsilon_{ls}$",
}


def write_figure(rows: Sequence[RowResult], path: pathlib.Path) -> str:
    """Write the figure as PNG, if it can be drawn.

    Args:
        rows: the finished rows; base and at least another one are needed.
        path: the file.

    Returns:
        A line that says where it is, or why there is none.
    """
    rows = [row for row in rows if math.isfinite(row.perplexity)]  # others have diverged
    others = [row for row in rows if row.row != "base"]
    base = next((row for row in rows if row.row == "base"), None)
    if base is None or not others:
        return "No figure: it compares rows with the row base, which is missing or alone."
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return "No figure: matplotlib is missing (the extra `plots` installs it)."
    figure = Figure(figsize=(9, 1.6 + 0.36 * len(others)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    paper = ROWS["base"]
    names = [_name(row, base) for row in others]
    _bars(
        left,
        names,
        [100 * (row.perplexity / base.perplexity - 1) for row in others],
        [100 * (ROWS[row.row].perplexity / paper.perplexity - 1) for row in others],
        "perplexity, % of base's more or less",
    )
    _bars(
        right,
        names,
        [row.bleu - base.bleu for row in others],
        [ROWS[row.row].bleu - paper.bleu for row in others],
        "BLEU, points more or less than base",
    )
    left.invert_yaxis()
    left.legend(loc="best", frameon=False)
    figure.suptitle(
        f"Rows of Table 3 against base: here {base.perplexity:.2f} perplexity, {base.bleu:.1f} "
        f"BLEU; in the paper {paper.perplexity:.2f}, {paper.bleu:.1f}",
        fontsize="medium",
    )
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=150)
    write_bytes(path, content.getvalue())
    return f"The figure is in {path}"


def _bars(
    axes: Any, names: Sequence[str], here: list[float], paper: list[float], label: str
) -> None:
    """Draw two bars for each row: that of the runs and the paper's."""
    places = range(len(names))
    half = _HEIGHT / 2
    axes.barh([place - half for place in places], here, _HEIGHT, color=_HERE, label="these runs")
    axes.barh([place + half for place in places], paper, _HEIGHT, color=_PAPER, label="the paper")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_yticks(list(places), names)
    axes.set_xlabel(label)
    axes.spines[["top", "right"]].set_visible(False)


def _name(row: RowResult, base: RowResult) -> str:
    """A row with what it changes of base, such as `A1  h=1`."""
    if row.row == "big":
        return row.row
    if row.row == "E":
        return f"{row.row}  learned positions"
    changes = [
        f"{symbol}={getattr(row, field):g}"
        for field, symbol in _SYMBOLS.items()
        if getattr(row, field) != getattr(base, field)
    ]
    if row.key_dim != row.value_dim:
        changes.append(f"$d_k$={row.key_dim}")
    return f"{row.row}  {', '.join(changes)}"

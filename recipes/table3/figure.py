"""A figure that shows each row's difference from base, here and in the paper."""

import math
import pathlib
from collections.abc import Sequence
from typing import Any

from keras_transformer.errors import UserInputError
from keras_transformer.figures import figure_file, figure_style, new_figure
from keras_transformer.files import write_bytes
from recipes.table3.row_result import RowResult
from recipes.table3.rows import ROWS

_HERE, _PAPER = "#0072b2", "#a3abbb"
_HEIGHT = 0.38  # height of a bar, in rows
_SYMBOLS = {
    "encoder_layers": "N",
    "hidden_dim": "$d_{model}$",
    "intermediate_dim": "$d_{ff}$",
    "num_heads": "h",
    "dropout": "$P_{drop}$",
    "label_smoothing": r"$\epsilon_{ls}$",
}


def write_figure(rows: Sequence[RowResult], path: pathlib.Path) -> str:
    """Write the figure if it can be drawn. Its note explains why rows differ from the paper.

    Args:
        rows: finished rows; must include base and at least one other row.
        path: output file; must end in `.svg`, `.pdf` or `.png`.

    Returns:
        A line with the path of the figure, or with the reason why there is none.
    """
    rows = [row for row in rows if math.isfinite(row.perplexity)]  # omits diverged rows
    others = [row for row in rows if row.row != "base"]
    base = next((row for row in rows if row.row == "base"), None)
    if base is None or not others:
        return "No figure: it compares rows with the row base, which is missing or the only row."
    paper = ROWS["base"]
    names = [_name(row, base) for row in others]
    pairs = [(row, ROWS[row.row]) for row in others]
    bleu = [(row.bleu - base.bleu, theirs.bleu - paper.bleu) for row, theirs in pairs]
    perplexity = [
        (
            100 * (row.perplexity / base.perplexity - 1),
            100 * (theirs.perplexity / paper.perplexity - 1),
        )
        for row, theirs in pairs
    ]
    try:
        with figure_style():
            figure = new_figure(9, 2.2 + 0.36 * len(others), layout="constrained")
            left, right = figure.subplots(1, 2, sharey=True)
            _bars(left, names, perplexity, "perplexity against base (%)\nless is better")
            _bars(right, names, bleu, "BLEU against base (points)\nmore is better")
            left.invert_yaxis()
            left.set_yticks(range(len(names)), names)
            figure.legend(*left.get_legend_handles_labels(), loc="outside upper right", ncols=2)
            figure.suptitle(_finding(bleu), x=0.01, horizontalalignment="left")
            figure.supxlabel(_note(base), x=0.01, horizontalalignment="left", fontsize="small")
    except UserInputError:
        return "No figure: matplotlib is missing (the `plots` extra installs it)."
    write_bytes(path, figure_file(figure, path.suffix[1:]))
    return f"The figure is in {path}"


def _finding(bleu: Sequence[tuple[float, float]]) -> str:
    """State how many rows change BLEU in the paper's direction."""
    same = sum(here * there > 0 for here, there in bleu)
    return f"Table 3: BLEU changes in the paper's direction in {same} of {len(bleu)} rows"


def _note(base: RowResult) -> str:
    """Compare the base rows, and explain why rows may differ from the paper."""
    paper = ROWS["base"]
    return (
        f"base: {base.perplexity:.2f} perplexity and {base.bleu:.1f} BLEU here, after "
        f"{base.steps:,} updates; {paper.perplexity:.2f} and {paper.bleu:.1f} in the paper, after "
        f"{paper.sizes.training_steps:,}.\nRows may differ from the paper because the text, the "
        f"number of updates and the size of base differ ({base.encoder_layers} layers of width "
        f"{base.hidden_dim}, in the paper {paper.sizes.num_encoder_layers} of "
        f"{paper.sizes.hidden_dim}),\nand because each row has one random seed. Short training "
        "favors fewer layers and less dropout."
    )


def _bars(
    axes: Any, names: Sequence[str], values: Sequence[tuple[float, float]], label: str
) -> None:
    """Draw two bars per row: one for the run and one for the paper."""
    places = range(len(names))
    here, paper = zip(*values, strict=True)
    half = _HEIGHT / 2
    axes.barh([place - half for place in places], here, _HEIGHT, color=_HERE, label="these runs")
    axes.barh([place + half for place in places], paper, _HEIGHT, color=_PAPER, label="the paper")
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel(label)
    axes.grid(axis="y", visible=False)


def _name(row: RowResult, base: RowResult) -> str:
    """Return the name of a row with its differences from base, such as `A1  h=1`."""
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

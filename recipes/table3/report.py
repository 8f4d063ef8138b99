"""A table of the finished rows as text, CSV, Markdown and a figure.

`python -m recipes.table3.report RUNS` recreates the table.
"""

import csv
import io
import pathlib
import sys
from collections.abc import Sequence

from keras_transformer.errors import UserInputError
from keras_transformer.files import say, write_text
from keras_transformer.toolkit.cli import CommandParser, run_command
from recipes.table3.figure import write_figure
from recipes.table3.row_result import RowResult, finished_rows
from recipes.table3.rows import ROWS, Row

_TITLE = "Table 3 of Vaswani et al. (2017): the dev text of these runs, next to the paper's"
_SIZES = ("N", "d_model", "d_ff", "h", "d_k", "d_v", "P_drop", "eps_ls", "steps")
_SCORES = ("PPL", "BLEU", "params")


def write_table(runs: pathlib.Path, show: bool = False) -> None:
    """Write `table3.txt`, `.csv`, `.md` and `.svg` for the finished rows to the runs folder.

    Args:
        runs: folder that contains the runs.
        show: whether to print the table and its path.

    Raises:
        UserInputError: no row has finished.
    """
    rows = finished_rows(runs)
    if not rows:
        raise UserInputError(f"No row of Table 3 has finished in {runs}")
    text = text_table(rows)
    write_text(runs / "table3.txt", text)
    write_text(runs / "table3.csv", csv_table(rows))
    write_text(runs / "table3.md", markdown_table(rows))
    note = write_figure(rows, runs / "table3.svg")
    if show:
        say(f"\n{text}\n{note}\nThe table is in {runs}: table3.txt, table3.csv, table3.md")


def text_table(rows: Sequence[RowResult]) -> str:
    """Return the table as aligned plain text."""
    lines = [_head(), *map(_line, rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    columns = [
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        )
        for line in lines
    ]
    return "".join(f"{line.rstrip()}\n" for line in (_TITLE, *columns, _scored(rows)))


def markdown_table(rows: Sequence[RowResult]) -> str:
    """Return the table in Markdown."""
    head = _head()
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *map(_line, rows)]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"{_TITLE}\n\n{table}\n{_scored(rows)}\n"


def csv_table(rows: Sequence[RowResult]) -> str:
    """Return the table as CSV, with unrounded scores, parameter counts and the paper's values."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = (*_SIZES, *_SCORES)
    writer.writerow(["row", *columns, "seconds", *(f"paper {column}" for column in columns)])
    for result in rows:
        paper = ROWS[result.row]
        million = None if paper.parameters is None else paper.parameters * 10**6
        here = [*_sizes(result), result.perplexity, result.bleu, result.parameters, result.seconds]
        there = [*_paper_sizes(paper), paper.perplexity, paper.bleu, million]
        writer.writerow([result.row, *here, *there])
    return file.getvalue()


def _head() -> list[str]:
    return ["row", *_SIZES, *_SCORES, *(f"paper {score}" for score in _SCORES)]


def _line(result: RowResult) -> list[str]:
    """Return a row's sizes and scores and the paper's scores as text."""
    paper = ROWS[result.row]
    return [
        result.row,
        *map(str, _sizes(result)),
        f"{result.perplexity:.2f}",
        f"{result.bleu:.2f}",
        f"{result.parameters / 1e6:.2f}",
        f"{paper.perplexity:.2f}",
        f"{paper.bleu:.1f}",
        "" if paper.parameters is None else str(paper.parameters),
    ]


def _sizes(result: RowResult) -> list[str | int | float]:
    """Return the values of `_SIZES` for a run."""
    layers = dict.fromkeys([result.encoder_layers, result.decoder_layers])
    return [
        "+".join(map(str, layers)),
        result.hidden_dim,
        result.intermediate_dim,
        result.num_heads,
        result.key_dim,
        result.value_dim,
        result.dropout,
        result.label_smoothing,
        result.steps,
    ]


def _paper_sizes(row: Row) -> list[int | float]:
    """Return the values of `_SIZES` in the paper."""
    sizes = row.sizes
    head = sizes.hidden_dim // sizes.num_heads
    return [
        sizes.num_encoder_layers,
        sizes.hidden_dim,
        sizes.intermediate_dim,
        sizes.num_heads,
        sizes.key_dim or head,
        sizes.value_dim or head,
        sizes.dropout,
        sizes.label_smoothing,
        sizes.training_steps,
    ]


def _scored(rows: Sequence[RowResult]) -> str:
    """Describe how the scores in the table are computed."""
    signatures = ", ".join(dict.fromkeys(row.signature for row in rows))
    return f"PPL per subword, params in millions, BLEU {signatures}; paper: newstest2013."


def main(arguments: Sequence[str] | None = None) -> None:
    """Write and print the table for a folder of runs."""
    parser = CommandParser(prog="python -m recipes.table3.report", description=__doc__)
    parser.add_argument("runs", type=pathlib.Path, metavar="RUNS", help="folder with the runs")
    write_table(parser.parse_args(arguments).runs, show=True)


if __name__ == "__main__":
    sys.exit(run_command(main))

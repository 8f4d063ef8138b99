"""A Markdown table that compares teacher and student."""

from collections.abc import Mapping, Sequence
from typing import Any

from recipes.distilled.runtimes import RUNTIMES

RESULT = "distilled.json"
TABLE = "distilled.md"


def markdown_table(content: Mapping[str, Any]) -> str:
    """Return the table, with quality first. Columns are padded to align as plain text, too.

    Args:
        content: the contents of `distilled.json`.
    """
    systems = content["systems"]
    runtimes = [name for name in RUNTIMES if name in systems[0]["runtimes"]]
    head = ["system", "search", "BLEU", "chrF", "M parameters"]
    for name in runtimes:
        own_score = ["BLEU"] if "bleu" in systems[0]["runtimes"][name] else []
        head += [f"{name}, sentences/s", "ratio", "MB", *own_score]
    rows = [_row(system, runtimes) for system in systems]
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = [
        "-" * width if column < 2 else "-" * (width - 1) + ":"
        for column, width in enumerate(widths)
    ]
    lines = [_line(row, widths) for row in (head, rule, *rows)]
    return "".join(f"{line}\n" for line in (*lines, "", _measured(content)))


def _row(system: Mapping[str, Any], runtimes: Sequence[str]) -> list[str]:
    cells = [
        system["system"],
        system["search"],
        f"{system['bleu']:.2f}",
        f"{system['chrf']:.2f}",
        f"{system['parameters'] / 1e6:.2f}",
    ]
    for name in runtimes:
        found = system["runtimes"][name]
        cells += [
            f"{found['sentences_per_second']:.1f}",
            f"{found['ratio']:.2f}",
            f"{found['bytes'] / 1e6:.2f}",
        ]
        if "bleu" in found:
            cells.append(f"{found['bleu']:.2f}")
    return cells


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return a row of the table: two columns of text, then numbers."""
    padded = [
        cell.ljust(width) if column < 2 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"| {' | '.join(padded)} |"


def _measured(content: Mapping[str, Any]) -> str:
    """Describe what was measured, and how."""
    return (
        f"{content['text']}, {content['sentences']:,} sentences; BLEU "
        f"{content['bleu_signature']}, chrF {content['chrf_signature']}, both of Translator unless "
        "a runtime has its own column. "
        f"Speeds on {content['timed_sentences']:,} sentences, median of {content['rounds']} "
        f"alternating rounds, {content['date']}; ratios to the first row in the same runtime."
    )

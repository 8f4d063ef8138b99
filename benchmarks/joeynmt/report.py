"""The table and the JSON record for the comparison."""

import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.joeynmt.measurement import Measurement
from benchmarks.peers.machine import machine

_COLUMNS = "{:>7} {:<17} {:>9} {:>8} {:>11} {:>9} {:>5} {:>6} {:>6}"
_HEADER = (
    "minutes",
    "program",
    "trained",
    "updates",
    "parameters",
    "tokens/s",
    "alpha",
    "BLEU",
    "chrF",
)


def lines(measurements: Sequence[Measurement]) -> Iterator[str]:
    """Yield the lines of a table with a header. Rows with the same minutes are adjacent."""
    yield _COLUMNS.format(*_HEADER)
    for one in sorted(measurements, key=lambda one: (one.minutes, one.program.lower())):
        yield _COLUMNS.format(
            f"{one.minutes:g}",
            one.program,
            f"{one.trained_minutes:.1f} min",
            f"{one.updates:,}",
            f"{one.parameters:,}",
            f"{one.target_tokens_per_second:,.0f}",
            f"{one.alpha:g}",
            f"{one.bleu:.2f}",
            f"{one.chrf:.2f}",
        )


def record(
    measurements: Sequence[Measurement], command: str, threads: int, beam_size: int
) -> dict[str, Any]:
    """Return all measurements for a JSON file."""
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "threads": threads,
        "beam_size": beam_size,
        "measurements": [vars(one) for one in measurements],
    }

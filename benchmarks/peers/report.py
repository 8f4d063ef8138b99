"""The table and the JSON record for a comparison."""

import dataclasses
import datetime
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.peers.machine import machine
from benchmarks.peers.rounds import Measurement, RowResult

COLUMNS = "{:<22} {:<21} {:<14} {:>9} {:>10} {:>6} {:>8} {:>7}"
HEADER = ("row", "engine", "precision", "seconds", "speed", "ratio", "peak MB", "start")


def lines(result: RowResult) -> Iterator[str]:
    """Yield the lines of a table with median seconds and sentences or target tokens per second."""
    for found in sorted(result.measured, key=lambda found: found.median):
        ratio = result.ratio(found)
        yield COLUMNS.format(
            result.row.name,
            found.engine.program,
            found.engine.precision,
            f"{found.median:.3f}",
            f"{_speed(result, found):,.1f}",
            "" if ratio is None else f"{ratio:.2f}",
            f"{found.peak_bytes / 1e6:,.0f}",
            f"{found.startup_seconds:.1f} s",
        ).rstrip()


def record(results: Sequence[RowResult], command: str, threads: int, rounds: int) -> dict[str, Any]:
    """Return all measurements for a JSON file."""
    return {
        "command": command,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "threads": threads,
        "rounds": rounds,
        "rows": [_row(result) for result in results],
    }


def _row(result: RowResult) -> dict[str, Any]:
    best = result.best_peer
    return {
        **dataclasses.asdict(result.row),
        "unit": result.row.unit,
        "best_peer": None if best is None else best.engine.name,
        "engines": [_engine(result, found) for found in result.measured],
        "skipped": result.skipped,
    }


def _engine(result: RowResult, found: Measurement) -> dict[str, Any]:
    return {
        "name": found.engine.name,
        "program": found.engine.program,
        "precision": found.engine.precision,
        "is_peer": found.engine.is_peer,
        "forced_length_of": found.engine.forces if result.row.task == "search" else None,
        "seconds": found.seconds,
        "median_seconds": found.median,
        "speed": _speed(result, found),
        "ratio_to_best_peer": result.ratio(found),
        "target_tokens": found.tokens,
        "peak_bytes": found.peak_bytes,
        "startup_seconds": found.startup_seconds,
        "versions": found.versions,
    }


def _speed(result: RowResult, found: Measurement) -> float:
    return result.row.units / found.median

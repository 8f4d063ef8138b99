"""The measurements as text and JSON."""

import dataclasses
import datetime
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from benchmarks.table1.growth import FIRST, LAST, exponent
from benchmarks.table1.layer_types import LAYER_TYPES, LayerType, Sizes

WIDTH = 10  # width of a numeric column
ROW = "{:<22} {:<17} {:<11} {:<8} {:>8} {:>8} {:>8}"
HEADER = ("layer", "complexity", "sequential", "path", "path at", "time", "memory")


@dataclasses.dataclass
class Measurements:
    """The measurements.

    Args:
        layer_types: the rows of the table.
        sizes: sizes of the layers.
        seconds: seconds of all rounds, by length and then by layer name.
        peak_bytes: peak memory in bytes, by length and then by layer name.
    """

    layer_types: Sequence[LayerType]
    sizes: Sizes
    seconds: dict[int, dict[str, list[float]]] = dataclasses.field(default_factory=dict)
    peak_bytes: dict[int, dict[str, int]] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, names: Sequence[str], sizes: Sizes) -> "Measurements":
        """Return empty measurements for the layers with these names."""
        return cls([layer_type for layer_type in LAYER_TYPES if layer_type.name in names], sizes)

    def best_seconds(self, name: str) -> dict[int, float]:
        """Return the seconds of the fastest round by length."""
        return {length: min(found[name]) for length, found in self.seconds.items()}

    def bytes_of(self, name: str) -> dict[int, int]:
        """Return the peak memory by length."""
        return {length: found[name] for length, found in self.peak_bytes.items()}


def heading(measured: Measurements, unit: str) -> str:
    """Return the heading of a table with one row per length."""
    columns = [f"{layer_type.name:>{WIDTH + 2}}" for layer_type in measured.layer_types]
    return f"{f'n, {unit}':<{WIDTH}}" + "".join(columns)


def length_row(length: int, values: Mapping[str, float], digits: int) -> str:
    """Return the table row for one length."""
    cells = [f"{value:>{WIDTH + 2},.{digits}f}" for value in values.values()]
    return f"{length:<{WIDTH},}" + "".join(cells)


def time_row(length: int, seconds: Mapping[str, Sequence[float]]) -> str:
    """Return a row with the milliseconds of each layer's fastest round."""
    return length_row(length, {name: 1000 * min(found) for name, found in seconds.items()}, 1)


def memory_row(length: int, peak_bytes: Mapping[str, int]) -> str:
    """Return a row with each layer's memory in megabytes."""
    return length_row(length, {name: found / 1e6 for name, found in peak_bytes.items()}, 1)


def summary(measured: Measurements) -> Iterator[str]:
    """Yield the lines of the paper's table with the measurements in additional columns."""
    longest = max(measured.seconds)
    yield ROW.format(*HEADER)
    yield ROW.format("", "per layer", "operations", "length", f"{longest:,}", "n^", "n^")
    for layer_type in measured.layer_types:
        exponents = (
            exponent(values)
            for values in (
                measured.best_seconds(layer_type.name),
                measured.bytes_of(layer_type.name),
            )
        )
        yield ROW.format(
            layer_type.title,
            layer_type.complexity,
            layer_type.sequential,
            layer_type.path,
            f"{layer_type.maximum_path_length(measured.sizes, longest):,}",
            *("" if slope is None else f"{slope:.2f}" for slope in exponents),
        ).rstrip()
    yield (
        f"The first columns are from Vaswani et al. (2017), Table 1. Exponents are fitted over "
        f"n = {FIRST:,} to {LAST:,}."
    )
    if comparison := compared(measured):
        yield comparison


def compared(measured: Measurements) -> str | None:
    """Compare windowed and full attention at the greatest length. Return None if one is missing."""
    longest = max(measured.seconds)
    if {"full", "windowed"} - {layer_type.name for layer_type in measured.layer_types}:
        return None
    line = (
        f"At {longest:,} positions, windowed attention is {speedup(measured):.1f} times as fast as "
        "full attention"
    )
    if longest not in measured.peak_bytes:
        return f"{line}."
    return f"{line}, with 1/{saving(measured):.1f} of its memory."


def speedup(measured: Measurements) -> float:
    """Return the speed of windowed attention relative to full attention at the greatest length."""
    seconds = measured.seconds[max(measured.seconds)]
    return min(seconds["full"]) / min(seconds["windowed"])


def saving(measured: Measurements) -> float:
    """Return the memory of full attention relative to windowed attention at the greatest length."""
    peak_bytes = measured.peak_bytes[max(measured.seconds)]
    return peak_bytes["full"] / max(1, peak_bytes["windowed"])


def record(measured: Measurements, **circumstances: Any) -> dict[str, Any]:
    """Return all measurements for a JSON file.

    Args:
        measured: the measurements.
        **circumstances: additional leading entries, such as the command.
    """
    return {
        **circumstances,
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "sizes": dataclasses.asdict(measured.sizes),
        "fitted_over": [FIRST, LAST],
        "layers": [_layer(measured, layer_type) for layer_type in measured.layer_types],
    }


def _layer(measured: Measurements, layer_type: LayerType) -> dict[str, Any]:
    name = layer_type.name
    return {
        "name": name,
        "complexity": layer_type.complexity,
        "sequential_operations": layer_type.sequential,
        "maximum_path_length": layer_type.path,
        "time_exponent": exponent(measured.best_seconds(name)),
        "memory_exponent": exponent(measured.bytes_of(name)),
        "lengths": [
            {
                "length": length,
                "path_length": layer_type.maximum_path_length(measured.sizes, length),
                "seconds": found[name],
                "peak_bytes": measured.peak_bytes.get(length, {}).get(name),
            }
            for length, found in measured.seconds.items()
        ],
    }

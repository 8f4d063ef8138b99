"""A figure of time and memory by sequence length."""

from typing import Any

from benchmarks.table1.growth import FIRST, LAST, exponent
from benchmarks.table1.report import Measurements, compared
from keras_transformer.figures import figure_file, figure_style, new_figure

_MARKERS = "osD^vX"
_MEMORY_NOTE = (
    "Memory is the peak of one process per point. The peak of the LSTM varies by tens of megabytes "
    "between processes, so its line\nzigzags at short lengths. Compare it from 2,048 positions on."
)


def draw(measured: Measurements, file_format: str) -> bytes:
    """Draw the figure and return the contents of the file.

    Args:
        measured: the measurements.
        file_format: "png", "pdf" or "svg".
    """
    sizes = measured.sizes
    with figure_style():
        figure = new_figure(10, 5.2, layout="constrained")
        times, memory = figure.subplots(1, 2)
        for layer_type, marker in zip(measured.layer_types, _MARKERS, strict=False):
            name = layer_type.name
            values = {length: 1000 * s for length, s in measured.best_seconds(name).items()}
            megabytes = {length: b / 1e6 for length, b in measured.bytes_of(name).items()}
            for axes, points in ((times, values), (memory, megabytes)):
                _draw_line(axes, layer_type.title, points, marker=marker)
        _finish(times, "time (ms)", list(measured.seconds))
        _finish(memory, "peak memory (MB)", list(measured.seconds))
        finding = compared(measured) or "Time and memory of a layer by sequence length"
        figure.suptitle(finding.rstrip("."), x=0.01, horizontalalignment="left")
        note = (
            f"Forward pass and gradient of a layer: d = {sizes.hidden_dim}, r = {sizes.window}, "
            f"k = {sizes.kernel_size}, batch {sizes.batch_size}. Exponents are fitted over "
            f"{FIRST:,} to {LAST:,} positions.\n"
        )
        figure.supxlabel(note + _MEMORY_NOTE, x=0.01, horizontalalignment="left", fontsize="small")
    return figure_file(figure, file_format)


def _draw_line(axes: Any, title: str, points: dict[int, float], **style: Any) -> None:
    positive = {length: value for length, value in points.items() if value > 0}
    slope = exponent(positive)
    label = title if slope is None else f"{title}: $n^{{{slope:.2f}}}$"
    axes.plot(list(positive), list(positive.values()), label=label, **style)


def _finish(axes: Any, title: str, lengths: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=30)
    axes.set_xlabel("length (positions)")
    axes.set_ylabel(title)
    axes.legend(loc="upper left")

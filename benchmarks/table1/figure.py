"""Time and memory over the length, as a figure."""

import io
from typing import Any

from benchmarks.table1.growth import exponent
from benchmarks.table1.report import Measurements

# Of Okabe and Ito (2008), which people with any colour vision tell apart.
_COLORS = ("#d55e00", "#e69f00", "#0072b2", "#009e73", "#cc79a7")
_MARKERS = "osD^v"


def draw(measured: Measurements, file_format: str) -> bytes:
    """The figure as the content of a file.

    Args:
        measured: the measurements.
        file_format: "png", "pdf" or "svg".
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.5), layout="constrained")
    times, memory = figure.subplots(1, 2)
    for layer_type, color, marker in zip(measured.layer_types, _COLORS, _MARKERS, strict=False):
        values = {length: 1000 * s for length, s in measured.best_seconds(layer_type.name).items()}
        megabytes = {length: b / 1e6 for length, b in measured.bytes_of(layer_type.name).items()}
        for axes, points in ((times, values), (memory, megabytes)):
            _draw_line(axes, layer_type.title, points, color=color, marker=marker)
    for axes, title in ((times, "milliseconds"), (memory, "megabytes at the peak")):
        _finish(axes, title, list(measured.seconds))
    sizes = measured.sizes
    figure.suptitle(
        f"Forward pass and gradient of a layer: d = {sizes.hidden_dim}, r = {sizes.window}, "
        f"k = {sizes.kernel_size}, batch {sizes.batch_size}"
    )
    content = io.BytesIO()
    figure.savefig(content, format=file_format, dpi=150)
    return content.getvalue()


def _draw_line(axes: Any, title: str, points: dict[int, float], **style: Any) -> None:
    positive = {length: value for length, value in points.items() if value > 0}
    slope = exponent(positive)
    label = title if slope is None else f"{title}: n^{slope:.2f}"
    axes.plot(list(positive), list(positive.values()), label=label, markersize=4, **style)


def _finish(axes: Any, title: str, lengths: list[int]) -> None:
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xticks(lengths, [f"{length:,}" for length in lengths], rotation=30)
    axes.set_xlabel("positions")
    axes.set_ylabel(title)
    axes.grid(alpha=0.25)
    axes.legend(fontsize="small")

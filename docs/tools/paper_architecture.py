"""The paper's Figure 1, redrawn. Each box links to its class in the API reference."""

import functools

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

from docs.tools.api_pages import entries
from docs.tools.svg_figures import BLUE, FAINT, FILL, GREEN, INK, ORANGE, PAPER, PURPLE

WIDTH, HEIGHT = 27.0, 5.6  # size of a box; the drawing is 100 wide and 118 high
ENCODER, DECODER = 27.0, 73.0  # centers of the two columns
ATTENTION, NORM, NETWORK, EMBEDDING = ORANGE, FAINT, BLUE, GREEN


@functools.cache
def links() -> dict[str, str]:
    """Return the address of each public class in the API reference, by name."""
    return {entry.name: f"../api/{entry.group}.html#{entry.home}" for entry in entries()}


def architecture() -> Figure:
    """Draw the complete model."""
    figure = Figure(figsize=(7.2, 8.4))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, 100)
    axes.set_ylim(0, 118)
    axes.set_axis_off()
    _text(axes, 2, 114.5, "The paper's Figure 1: each box links to its class", size=11, left=True)
    _text(axes, 2, 110.8, "Transformer", left=True, name="Transformer", family="monospace")
    memory = _stack(axes, ENCODER, 33, "TransformerEncoderLayer", with_memory=False)
    _stack(axes, DECODER, 33, "TransformerDecoderLayer", with_memory=True)
    _box(axes, 50, 19.8, "Positions", "PositionalEmbedding", EMBEDDING, width=24)
    _inputs(axes, ENCODER, "source ids", side=1)
    _inputs(axes, DECODER, "target ids, shifted right", side=-1)
    _memory_arrow(axes, memory)
    _output(axes)
    return figure


def _stack(axes, middle: float, bottom: float, name: str, *, with_memory: bool) -> float:
    """Draw a repeated layer with its sublayers. Return the height of its upper edge."""
    parts = [("Masked self-attention" if with_memory else "Self-attention", "MultiHeadAttention")]
    if with_memory:
        parts.append(("Attention to the memory", "MultiHeadAttention"))
    parts.append(("Feed-forward network", "FeedForward"))
    height = 17.5 * len(parts) + 2
    frame = FancyBboxPatch(
        (middle - 20, bottom),
        40,
        height,
        boxstyle="round,pad=0,rounding_size=2",
        facecolor=FILL,
        edgecolor=FAINT,
        url=links()[name],
    )
    axes.add_patch(frame)
    for number, (label, part) in enumerate(parts):
        y = bottom + 17.5 * number
        _arrow(axes, (middle, y - (4 if number == 0 else 0.5)), (middle, y + 4))
        _box(axes, middle, y + 4, label, part, NETWORK if part == "FeedForward" else ATTENTION)
        _arrow(axes, (middle, y + 9.6), (middle, y + 11.4))
        _box(axes, middle, y + 11.4, "Add and normalize", "ResidualBlock", NORM)
        side = -16.8 if middle < 50 else 16.8
        x, edge = [middle, middle + side], middle + (WIDTH / 2 if side > 0 else -WIDTH / 2)
        axes.plot([x[0], x[1], x[1]], [y + 1.6, y + 1.6, y + 14.2], color=INK, linewidth=0.9)
        _arrow(axes, (x[1], y + 14.2), (edge, y + 14.2))
    top = bottom + height
    axes.plot([middle, middle], [top - 2.5, top + 2.4], color=INK, linewidth=0.9)
    mono = {"size": 6.8, "left": True, "name": name, "family": "monospace"}
    _text(axes, middle - 19, top + 1.4, name, **mono)
    _text(axes, middle + 1.2, top + 1.4, "× N", **mono)
    return top


def _inputs(axes, middle: float, label: str, *, side: int) -> None:
    _text(axes, middle, 6.2, label)
    _arrow(axes, (middle, 8.3), (middle, 11))
    _box(axes, middle, 11, "Embedding", "TokenEmbedding", EMBEDDING)
    _arrow(axes, (middle, 16.6), (middle, 21))
    axes.add_patch(Circle((middle, 22.6), 1.6, facecolor=PAPER, edgecolor=INK, linewidth=0.9))
    axes.text(middle, 22.6, "+", ha="center", va="center", fontsize=9)
    axes.plot([middle, middle], [24.2, 29], color=INK, linewidth=0.9)
    _arrow(axes, (50 - side * 12, 22.6), (middle + side * 1.6, 22.6))


def _memory_arrow(axes, top: float) -> None:
    """Draw the arrow from the end of the encoder to the decoder's second attention sublayer."""
    y = 33 + 17.5 + 6.8
    axes.plot([ENCODER, ENCODER, 50, 50], [top, top + 6, top + 6, y], color=INK, linewidth=0.9)
    _arrow(axes, (50, y), (DECODER - WIDTH / 2, y))
    axes.text(48.6, top - 3, "memory", rotation=90, ha="right", va="top", fontsize=8)


def _output(axes) -> None:
    top = 33 + 17.5 * 3 + 2
    _arrow(axes, (DECODER, top + 2.4), (DECODER, top + 5))
    _box(axes, DECODER, top + 5, "Linear, shared matrix", "TokenEmbedding", EMBEDDING)
    _arrow(axes, (DECODER, top + 10.6), (DECODER, top + 12.8))
    _box(axes, DECODER, top + 12.8, "Softmax, in the loss", "LabelSmoothingCrossEntropy", PURPLE)
    _arrow(axes, (DECODER, top + 18.4), (DECODER, top + 21))
    _text(axes, DECODER, top + 23, "probabilities of the next token")


def _box(axes, middle, bottom, label, name, color, width=WIDTH) -> None:
    shape = FancyBboxPatch(
        (middle - width / 2, bottom),
        width,
        HEIGHT,
        boxstyle="round,pad=0,rounding_size=1.2",
        facecolor=PAPER,
        edgecolor=color,
        linewidth=1.6,
        url=links()[name],
    )
    axes.add_patch(shape)
    _text(axes, middle, bottom + 3.9, label, name=name)
    _text(axes, middle, bottom + 1.6, name, size=6.6, name=name, family="monospace")


def _text(axes, x, y, text, *, size=8.5, name=None, left=False, **options) -> None:
    options |= {"url": links()[name]} if name else {}
    axes.text(
        x,
        y,
        text,
        ha="left" if left else "center",
        va="center",
        fontsize=size,
        **options,
    )


def _arrow(axes, start, end) -> None:
    arrow = {"arrowstyle": "-|>", "color": INK, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=arrow | {"mutation_scale": 8})

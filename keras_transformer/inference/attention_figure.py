"""Draw the attention of a sentence pair as a figure for notebooks and papers."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from keras_transformer.argument_checks import check_one_of
from keras_transformer.errors import refuse
from keras_transformer.evaluation.figures import figure_style, new_figure
from keras_transformer.inference.attention_maps import AttentionMaps, Kind, check_index
from keras_transformer.text.subword_sampler import SPACE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Style = Literal["lines", "matrix"]
STYLES: tuple[Style, ...] = ("lines", "matrix")
# The head colors of the HTML page, on white. Additional heads reuse the colors in order.
COLORS = (
    "#1d66d0", "#c2520c", "#16803f", "#c62b3a", "#7443c4", "#0a7c89",
    "#b8308f", "#80591d", "#4a5a70", "#5d7a10", "#a03a5c", "#35439c",
)  # fmt: skip
# Sizes are in inches.
_MOST = 60.0  # maximum size per side; longer sentences are scaled down
_TOKEN = 0.25  # distance between tokens
_BETWEEN = 2.0  # distance between the two sentences
_LETTER = 0.085  # approximate width of a letter in a token label
_LONGEST = 24  # maximum number of letters in a token label; the rest is cut off
_MARGIN = 0.15
_LEGEND = 1.1
_TITLE = 0.3
_HEADING = 0.5  # two lines: subject and finding
_LABEL = 0.2  # size of an axis label
_BAR = 0.12  # width of the color bar
_BAR_LABELS = 0.55
_LEAST_WIDTH = 2.8  # fits the heading
_POINTS = 72  # points per inch
_LEAST_WEIGHT = 0.01  # smallest weight that is drawn as a line
_MOST_ACROSS = 4  # maximum number of matrices per row
_HEADINGS = {
    "encoder": "Encoder self-attention",
    "decoder": "Decoder self-attention",
    "cross": "Cross-attention",
    "alignment": "Alignment",
}
_SIDES = {  # sides of the query tokens and the key tokens
    "encoder": ("source", "source"),
    "decoder": ("output", "output so far"),
    "cross": ("output", "source"),
    "alignment": ("output", "source"),
}


def attention_figure(
    maps: AttentionMaps,
    kind: Kind,
    layer: int,
    heads: Iterable[int] | None = None,
    *,
    style: Style = "lines",
) -> "Figure":
    """Draw the attention of one layer with matplotlib.

    Args:
        maps: the `AttentionMaps` of a sentence pair.
        kind: "encoder", "decoder", "cross" or "alignment".
        layer: index of the layer, counted from 0.
        heads: indices of the heads, counted from 0; defaults to all heads.
        style: "lines" as in figures 3 to 5 of the paper, with query tokens at the top, key tokens
            at the bottom, and lines between them. Line colors identify the heads, and opacity shows
            the weight. "matrix" draws a matrix for each head, with one row per query token.

    Returns:
        A `matplotlib.figure.Figure`; call `savefig` to write PNG, PDF or SVG. In the legend and the
        titles, heads are numbered from 1, as on the HTML page.

    Raises:
        ValueError: an argument is invalid, or the layer or a head does not exist.
        UserInputError: the model lacks this kind of attention, or matplotlib is not installed.

    Example:
        >>> weights = np.eye(3, dtype="float32")[None, None]  # one layer, one head
        >>> maps = AttentionMaps(
        ...     ["▁a", "▁b", "</s>"], ["<s>", "▁c", "▁d"], ["▁c", "▁d", "</s>"], *3 * [weights]
        ... )
        >>> figure = attention_figure(maps, "cross", layer=0)
        >>> [text.get_text() for text in figure.axes[0].texts]
        ['c', 'd', '</s>', 'a', 'b', '</s>']

    Reference: Vaswani et al. (2017), figures 3 to 5.
    """
    check_one_of("style", style, STYLES)
    weights = maps.weights(kind)
    check_index("layer", layer, len(weights))
    chosen = list(range(weights.shape[1])) if heads is None else list(heads)
    for head in chosen:
        check_index("heads", head, weights.shape[1])
    if not chosen:
        refuse("heads", "contain at least one head", [])
    columns = maps.target_tokens if kind == "decoder" else maps.source_tokens
    rows = maps.source_tokens if kind == "encoder" else maps.output_tokens
    draw = _draw_lines if style == "lines" else _draw_matrices
    with figure_style():
        figure = draw(weights[layer], chosen, _names(rows), _names(columns), _SIDES[kind])
        figure.text(
            _MARGIN / figure.get_figwidth(),
            1 - _MARGIN / figure.get_figheight(),
            f"{_HEADINGS[kind]}, layer {layer + 1}\n"
            + _finding(maps.entropies(kind)[layer].clip(0), chosen),
            fontsize=9,
            verticalalignment="top",
        )
    return figure


def _finding(entropies: np.ndarray, heads: Sequence[int]) -> str:
    """Describe which head attends to the fewest tokens; `entropies` are in nats, one per head."""
    head = min(heads, key=lambda head: entropies[head])
    which = f"Sharpest head: {head + 1}" if len(heads) > 1 else f"Head {head + 1}"
    return f"{which} (entropy {entropies[head]:.2f} nats)"


def _names(tokens: Sequence[str]) -> list[str]:
    """Return tokens for display, without the word-start marker."""
    names = [token.replace(SPACE, " ").strip() or "␣" for token in tokens]
    return [name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…" for name in names]


def _room(names: Sequence[str]) -> float:
    """Return the space required by the longest name."""
    return _MARGIN + _LETTER * max(map(len, names))


def _add_axes(figure: "Figure", left: float, bottom: float, width: float, height: float) -> "Axes":
    """Add axes at a position given in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def _draw_lines(
    weights: np.ndarray,
    heads: Sequence[int],
    rows: Sequence[str],
    columns: Sequence[str],
    sides: tuple[str, str],
) -> "Figure":
    length = max(len(rows), len(columns))
    token = min(_TOKEN, _MOST / length)
    above, below = _room(rows), _room(columns)
    figure = new_figure(
        max(_LEAST_WIDTH, token * length + 2 * _MARGIN + _LEGEND),
        _HEADING + above + _BETWEEN + below + 2 * _MARGIN,
    )
    axes = _add_axes(figure, _MARGIN, _MARGIN + below, token * length, _BETWEEN)
    axes.set_xlim(-0.5, length - 0.5)
    axes.set_ylim(0, 1)
    axes.set_axis_off()
    spread = min(0.07, 0.6 / len(heads))  # keeps lines of similar heads from overlapping
    for place, head in enumerate(heads):
        shift = (place - (len(heads) - 1) / 2) * spread
        axes.add_collection(_lines(weights[head], COLORS[head % len(COLORS)], shift))
    size = min(9.0, 0.8 * token * _POINTS)
    for names, height, side in ((rows, 1.03, "bottom"), (columns, -0.03, "top")):
        for place, name in enumerate(names):
            # Dollar signs in tokens must not start a formula.
            axes.text(
                place, height, name, rotation=90, fontsize=size, ha="center", va=side,
                parse_math=False,
            )  # fmt: skip
    right = (2 * _MARGIN + token * length) / figure.get_figwidth()
    _, bottom, _, height = axes.get_position().bounds
    for text, y, side in (
        (f"query: {sides[0]}", bottom + 1.03 * height, "bottom"),
        (f"key: {sides[1]}", bottom - 0.03 * height, "top"),
    ):
        figure.text(right, y, text, fontsize=8, verticalalignment=side)
    _add_legend(figure, heads, right, bottom + height / 2)
    return figure


def _lines(weights: np.ndarray, color: str, shift: float) -> Any:
    """Draw the lines of one head from (row + shift, 1) to (column + shift, 0)."""
    from matplotlib.collections import LineCollection
    from matplotlib.colors import to_rgb

    pairs = np.argwhere(weights >= _LEAST_WEIGHT)  # (lines, 2)
    heights = np.broadcast_to([1, 0], pairs.shape)
    ends = np.stack([pairs + shift, heights], axis=-1)  # (lines, 2, 2): x and y of each end
    colors = np.empty((len(pairs), 4))
    colors[:, :3] = to_rgb(color)
    colors[:, 3] = weights[tuple(pairs.T)].clip(0, 1)
    return LineCollection(list(ends), colors=colors, linewidths=1.5)


def _add_legend(figure: "Figure", heads: Sequence[int], left: float, middle: float) -> None:
    """Add a legend of the head colors at a position relative to the figure."""
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLORS[head % len(COLORS)], label=str(head + 1)) for head in heads
    ]
    figure.legend(
        handles=handles, title="Head", loc="center left", bbox_to_anchor=(left, middle),
        title_fontsize=8, handlelength=1.2, ncols=1 + len(heads) // 9, borderpad=0,
    )  # fmt: skip


def _draw_matrices(
    weights: np.ndarray,
    heads: Sequence[int],
    rows: Sequence[str],
    columns: Sequence[str],
    sides: tuple[str, str],
) -> "Figure":
    across = min(_MOST_ACROSS, len(heads))
    down = -(-len(heads) // across)
    left, below = _room(rows), _room(columns)
    cell = min(_TOKEN, _MOST / (across * len(columns)), _MOST / (down * len(rows)))
    width, height = cell * len(columns), cell * len(rows)
    step_across, step_down = left + width + _MARGIN, below + height + _TITLE
    matrices = across * step_across + _LABEL
    figure = new_figure(
        max(_LEAST_WIDTH, matrices + _MARGIN + _BAR + _BAR_LABELS),
        _HEADING + down * step_down + _LABEL,
    )
    size = min(8.0, 0.8 * cell * _POINTS)
    for place, head in enumerate(heads):
        row, column = divmod(place, across)
        bottom = (down - 1 - row) * step_down + below + _LABEL
        axes = _add_axes(figure, _LABEL + column * step_across + left, bottom, width, height)
        image = axes.imshow(weights[head], vmin=0, vmax=1, aspect="auto")
        axes.grid(visible=False)
        axes.set_title(f"Head {head + 1}", fontsize=9)
        if column == 0:
            axes.set_ylabel(f"query: {sides[0]}", fontsize=8)
        if place + across >= len(heads):  # the last matrix of its column
            axes.set_xlabel(f"key: {sides[1]}", fontsize=8)
        axes.set_xticks(range(len(columns)), columns, rotation=90, fontsize=size, parse_math=False)
        axes.set_yticks(range(len(rows)), rows, fontsize=size, parse_math=False)
        axes.tick_params(length=0)
    bar = _add_axes(figure, matrices + _MARGIN, bottom, _BAR, height)
    figure.colorbar(image, cax=bar, label="attention weight")
    return figure

"""Names of points in a figure that do not hide each other or a point."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_DISTANCES = (5, 12, 22, 34, 48)  # of a name from its point, in points of 1/72 inch
_DIRECTIONS = ((1, 0), (1, 1), (1, -1), (-1, 0), (-1, 1), (-1, -1), (0, 1), (0, -1))
_ACROSS = {1: "left", 0: "center", -1: "right"}
_ABOVE = {1: "bottom", 0: "center", -1: "top"}
_POINT = 4.0  # half the width of a point, in dots
_WITHOUT_LINE = 12  # names that are farther away get a line to their point


class PointLabel(NamedTuple):
    """The name of a point, in the units of its axes."""

    text: str
    x: float
    y: float
    color: str


def label_points(figure: "Figure", axes: "Axes", labels: Sequence[PointLabel]) -> None:
    """Write names beside points, each at the nearest free place.

    Call this when the limits, scales and legend of the axes are final. If a name finds no free
    place, it takes the first place.

    Args:
        figure: the figure of the axes.
        axes: where the points are drawn.
        labels: the names.
    """
    from matplotlib.text import Text

    if not labels:
        return
    figure.draw_without_rendering()  # lays out the axes
    dots = figure.dpi / 72  # per point
    frame = np.array(axes.get_window_extent().extents)
    places = axes.transData.transform([(label.x, label.y) for label in labels])
    taken = [np.array([*place - _POINT, *place + _POINT]) for place in places]
    if legend := axes.get_legend():
        taken.append(np.array(legend.get_window_extent().extents))
    for label, place in zip(labels, places, strict=True):
        text = Text(text=label.text, fontsize="small", parse_math=False, figure=figure)
        size = np.array(text.get_window_extent().size)
        options = [
            (right, up, distance, _box(place, right, up, distance * dots, size))
            for distance in _DISTANCES
            for right, up in _DIRECTIONS
        ]
        right, up, distance, box = next(
            (option for option in options if _is_free(option[-1], frame, taken)), options[0]
        )
        taken.append(box)
        line = {"arrowstyle": "-", "color": label.color, "linewidth": 0.5, "shrinkB": 3}
        axes.annotate(
            label.text,
            (label.x, label.y),
            xytext=(distance * right, distance * up),
            textcoords="offset points",
            horizontalalignment=_ACROSS[right],
            verticalalignment=_ABOVE[up],
            fontsize="small",
            color=label.color,
            parse_math=False,  # users may choose any name
            in_layout=False,
            arrowprops=line if distance > _WITHOUT_LINE else None,
        )


def _box(place: np.ndarray, right: int, up: int, distance: float, size: np.ndarray) -> np.ndarray:
    """Left, bottom, right and top of a name, in dots."""
    directions = np.array([right, up])
    start = place + distance * directions + size * (directions - 1) / 2
    return np.concatenate([start, start + size])


def _is_free(box: np.ndarray, frame: np.ndarray, taken: Sequence[np.ndarray]) -> bool:
    """Whether a box is within the frame and overlaps no other box."""
    is_within = (box[:2] >= frame[:2]).all() and (box[2:] <= frame[2:]).all()
    return bool(is_within) and not any(
        (box[:2] < other[2:]).all() and (other[:2] < box[2:]).all() for other in taken
    )

"""A training curve as SVG within a page, without a library: every training has its report."""

import html
import math
from collections.abc import Sequence

import numpy as np

from keras_transformer.figures.run_curves import MOST_MARKS, WIDE, Curve

_WIDTH, _HEIGHT = 400, 214
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 374, 10, 178  # of the frame
_MOST_POINTS = 600  # of a line
_TICKS = 4


def curve_svg(
    curve: Curve, name: str, *, steps: float, from_zero: bool, smooth: bool = False
) -> str:
    """A line over the updates, with its axes; the page's style sets the colours.

    Args:
        curve: the values.
        name: what the values are, for people who cannot see the picture.
        steps: updates of the whole training, where the axis ends.
        from_zero: whether the axis of the values begins at 0. If not, it is logarithmic if the
            values differ a lot.
        smooth: whether to draw the mean of neighbours over faint single values.

    Returns:
        An `svg` element whose text alternative gives the first, last, lowest and highest value.
    """
    values = curve.smoothed() if smooth else curve.values
    is_log = not from_zero and 0 < WIDE * values.min() < values.max()
    low, high = _limits(curve.values, from_zero, is_log)

    def x(step: np.ndarray | float) -> np.ndarray:
        return _LEFT + (_RIGHT - _LEFT) * np.asarray(step) / steps

    def y(value: np.ndarray | float) -> np.ndarray:
        share = (_scaled(value, is_log) - _scaled(low, is_log)) / (
            _scaled(high, is_log) - _scaled(low, is_log)
        )
        return _BOTTOM - (_BOTTOM - _TOP) * share

    parts = []
    for tick in _log_ticks(low, high) if is_log else _ticks(low, high):
        at = f"{y(tick):.1f}"
        parts.append(f'<path class="grid" d="M{_LEFT} {at}H{_RIGHT}"/>')
        parts.append(f'<text class="y" x="{_LEFT - 6}" y="{at}">{tick:g}</text>')
    for tick in _ticks(0, steps):
        parts.append(f'<text class="x" x="{x(tick):.1f}" y="{_BOTTOM + 16}">{tick:,.6g}</text>')
    parts.append(f'<path class="axis" d="M{_LEFT} {_TOP}V{_BOTTOM}H{_RIGHT}"/>')
    middle = (_LEFT + _RIGHT) / 2
    parts.append(f'<text class="x" x="{middle:g}" y="{_HEIGHT - 4}">updates</text>')
    if smooth:
        parts.append(_line("faint", x(curve.step), y(curve.values)))
    parts.append(_line("line", x(curve.step), y(values)))
    if not smooth and len(values) <= MOST_MARKS:
        parts += [
            f'<circle cx="{x(step):.1f}" cy="{y(value):.1f}" r="3">'
            f"<title>update {step:,.0f}: {value:.4g}</title></circle>"
            for step, value in zip(curve.step, values, strict=True)
        ]
    alternative = (
        f"{name} over updates: {values[0]:.4g} at {curve.step[0]:,.0f}, {values[-1]:.4g} at "
        f"{curve.step[-1]:,.0f}; least {values.min():.4g}, greatest {values.max():.4g}"
    )
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{html.escape(alternative)}">{"".join(parts)}</svg>'
    )


def _line(kind: str, x: np.ndarray, y: np.ndarray) -> str:
    """A path through at most `_MOST_POINTS` of the points."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    points = " ".join(f"{x[i]:.1f} {y[i]:.1f}" for i in kept)
    return f'<path class="{kind}" d="M{points}"/>'


def _scaled(value: np.ndarray | float, is_log: bool) -> np.ndarray:
    return np.log10(value) if is_log else np.asarray(value, "float64")


def _limits(values: np.ndarray, from_zero: bool, is_log: bool) -> tuple[float, float]:
    """The ends of the axis of the values, with a little room."""
    low, high = float(values.min()), float(values.max())
    if is_log:
        return low / 1.2, high * 1.2
    if from_zero:
        low = min(0.0, low)
    room = 0.05 * (high - low) or abs(high) or 1.0
    return low - (0 if from_zero else room), high + room


def _ticks(low: float, high: float) -> Sequence[float]:
    """About four round numbers from `low` to `high`.

    Example:
        >>> _ticks(0, 240), _ticks(1.07, 2.97)
        ([0.0, 50.0, 100.0, 150.0, 200.0], [1.5, 2.0, 2.5])
    """
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = min((m * power for m in (1, 2, 5, 10)), key=lambda step: abs(step - rough))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 12) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float) -> Sequence[float]:
    """Powers of ten from `low` to `high`, and if they are few, 2 and 5 times these.

    Example:
        >>> _log_ticks(4, 300)
        [5.0, 10.0, 20.0, 50.0, 100.0, 200.0]
        >>> _log_ticks(4, 30_000)
        [10.0, 100.0, 1000.0, 10000.0]
    """
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if len(powers) <= _TICKS else (1,)
    ticks = [factor * 10.0**power for power in powers for factor in factors]
    return [tick for tick in ticks if low <= tick <= high]

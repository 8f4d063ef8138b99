"""How fast a value grows with the length: the exponent of a power law."""

from collections.abc import Mapping

import numpy as np

# Shorter sequences take little beside what a call costs by itself.
FIRST, LAST = 1024, 8192


def exponent(values: Mapping[int, float]) -> float | None:
    """The slope of a line through logarithms, by least squares, over lengths of 1,024 to 8,192.

    Args:
        values: a positive number for each length.

    Returns:
        The exponent, or None with fewer than two such lengths.

    Example:
        >>> round(exponent({512: 9.0, 1024: 1.0, 2048: 4.0, 8192: 64.0}), 6)
        2.0
    """
    fitted = {length: value for length, value in values.items() if FIRST <= length <= LAST}
    if len(fitted) < 2 or min(fitted.values()) <= 0:
        return None
    slope, _ = np.polyfit(np.log(list(fitted)), np.log(list(fitted.values())), deg=1)
    return float(slope)

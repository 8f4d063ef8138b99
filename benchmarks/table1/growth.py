"""Growth of a value with length, as the exponent of a power law."""

from collections.abc import Mapping

import numpy as np

# For shorter sequences, the fixed cost of a call dominates.
FIRST, LAST = 1024, 8192


def exponent(values: Mapping[int, float]) -> float | None:
    """Return the slope of a least-squares line through the logarithms, for lengths 1,024 to 8,192.

    Args:
        values: a positive number for each length.

    Returns:
        The exponent, or None for fewer than two lengths in this range.

    Example:
        >>> round(exponent({512: 9.0, 1024: 1.0, 2048: 4.0, 8192: 64.0}), 6)
        2.0
    """
    fitted = {length: value for length, value in values.items() if FIRST <= length <= LAST}
    if len(fitted) < 2 or min(fitted.values()) <= 0:
        return None
    slope, _ = np.polyfit(np.log(list(fitted)), np.log(list(fitted.values())), deg=1)
    return float(slope)

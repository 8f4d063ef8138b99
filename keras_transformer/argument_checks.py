"""Checks of arguments: each raises a `ValueError` with the argument, the rule and the value."""

import numbers
from collections.abc import Collection
from typing import TypeGuard


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is an integer or a float; booleans are neither."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_no_string(name: str, strings: object) -> None:
    """Refuse a single string, itself a sequence of strings, in place of a list of them."""
    if isinstance(strings, (str, bytes)):
        raise ValueError(f"`{name}` must be a list of strings. Received: {name}={strings!r}")


def check_bool(name: str, value: object) -> None:
    """Require True or False: of other values any might pass as True."""
    if not isinstance(value, bool):
        raise ValueError(f"`{name}` must be True or False. Received: {name}={value!r}")


def check_positive_int(name: str, value: object) -> None:
    """Require an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")


def check_window(name: str, value: object) -> None:
    """Require an odd integer of at least 1 that fits into int32, or None."""
    if value is None:
        return
    is_int = isinstance(value, int) and not isinstance(value, bool)
    if not is_int or value not in range(1, 2**31, 2):
        raise ValueError(
            f"`{name}` must be an odd positive integer, or None. Received: {name}={value!r}"
        )


def check_non_negative_int(name: str, value: object) -> None:
    """Require a Python or NumPy integer >= 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise ValueError(f"`{name}` must be an integer >= 0. Received: {name}={value!r}")


def check_rate(name: str, value: object) -> None:
    """Require a number in [0, 1), such as a dropout rate."""
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value!r}")


def check_positive_number(name: str, value: object) -> None:
    """Require a number > 0."""
    if not is_number(value) or not value > 0:
        raise ValueError(f"`{name}` must be a number > 0. Received: {name}={value!r}")


def check_non_negative_number(name: str, value: object) -> None:
    """Require a number >= 0."""
    if not is_number(value) or not value >= 0:
        raise ValueError(f"`{name}` must be a number >= 0. Received: {name}={value!r}")


def check_one_of(name: str, value: object, choices: Collection[object]) -> None:
    """Require one of the given values."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {list(choices)}. Received: {name}={value!r}")


def known_width(name: str, shape: tuple[int | None, ...]) -> int:
    """Require the last axis of a call argument's shape, which weights depend on; return it."""
    width = shape[-1]
    if width is None:
        raise ValueError(f"The last axis of `{name}` must be known. Received: shape {tuple(shape)}")
    return width

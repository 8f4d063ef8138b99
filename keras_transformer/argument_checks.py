"""Checks of arguments: each raises a `ValueError` with the argument, the rule and the value."""

import numbers


def is_number(value):
    """Whether a value is an integer or a float, and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def check_no_string(name, strings):
    """Require that a list of strings is not a single one, which is a sequence of strings too."""
    if isinstance(strings, (str, bytes)):
        raise ValueError(f"`{name}` must be a list of strings. Received: {name}={strings!r}")


def check_positive_int(name, value):
    """Require an integer >= 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"`{name}` must be a positive integer. Received: {name}={value!r}")


def check_non_negative_int(name, value):
    """Require an integer >= 0, Python's or NumPy's."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 0:
        raise ValueError(f"`{name}` must be an integer >= 0. Received: {name}={value!r}")


def check_rate(name, value):
    """Require a number in [0, 1), such as a dropout rate."""
    if not is_number(value) or not 0 <= value < 1:
        raise ValueError(f"`{name}` must be a number in [0, 1). Received: {name}={value!r}")


def check_positive_number(name, value):
    """Require a number > 0."""
    if not is_number(value) or not value > 0:
        raise ValueError(f"`{name}` must be a number > 0. Received: {name}={value!r}")


def check_non_negative_number(name, value):
    """Require a number >= 0."""
    if not is_number(value) or not value >= 0:
        raise ValueError(f"`{name}` must be a number >= 0. Received: {name}={value!r}")


def check_one_of(name, value, choices):
    """Require one of the given values."""
    if value not in choices:
        raise ValueError(f"`{name}` must be one of {list(choices)}. Received: {name}={value!r}")

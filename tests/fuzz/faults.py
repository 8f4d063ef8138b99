"""What a case must not do."""

import json
import math


class Fault(Exception):
    """A case has shown a fault of the package; the message says which."""


def require(holds, message):
    """Raise a `Fault` where something does not hold."""
    if not holds:
        raise Fault(message)


def require_good_end(outcome):
    """Require the right result, or one line and exit code 2, of an `Outcome`."""
    fault = outcome.fault()
    require(not fault, fault)
    try:
        outcome.out.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Fault(f"standard output is no UTF-8: {error}") from error


def require_json_numbers(text):
    """Require JSON whose numbers are finite, or NaN where there is nothing to divide."""
    for value in _numbers(json.loads(text)):
        require(not math.isinf(value), f"an infinite number in {text[:200]}")


def _numbers(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for entry in value:
            yield from _numbers(entry)
    elif isinstance(value, (int, float)):
        yield value

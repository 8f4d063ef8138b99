"""Retries of requests that failed for a temporary reason."""

import random
import time
from collections.abc import Callable
from typing import TypeVar

from keras_transformer.serving.serving_errors import ServingError

MOST_SECONDS = 10.0  # of one pause
MOST_DOUBLINGS = 1000  # a float overflows at the 1024th power of two

_Result = TypeVar("_Result")


def call_with_retries(call: Callable[[], _Result], retries: int, backoff: float) -> _Result:
    """The result of `call()`, which is repeated after a temporary failure.

    The pause before the k-th repetition is `backoff * 2**(k - 1)` seconds, at most `MOST_SECONDS`,
    times a random number in [0.5, 1], so that clients that failed together do not return together.
    The error of the last call tells the number of calls.
    """
    attempt = 0
    while True:
        try:
            return call()
        except ServingError as error:
            if not error.may_pass or retries == 0:
                raise
            if attempt == retries:
                raise type(error)(f"{error} Tried {attempt + 1} times.") from error
        doubled = backoff * 2 ** min(attempt, MOST_DOUBLINGS)
        time.sleep(min(doubled, MOST_SECONDS) * random.uniform(0.5, 1.0))
        attempt += 1

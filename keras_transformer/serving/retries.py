"""Requests that are sent again when their failure may pass."""

import random
import time

from keras_transformer.serving.serving_errors import ServingError

MOST_SECONDS = 10.0  # of one pause
MOST_DOUBLINGS = 1000  # a float holds no power of two from 1024 on


def call_with_retries(call, retries, backoff):
    """The result of `call()`, which is repeated after a failure that may pass.

    The pause before the k-th repetition is `backoff * 2**(k - 1)` seconds, at most `MOST_SECONDS`,
    times a random number in [0.5, 1]: clients that failed together do not come back together. The
    error of the last call says how many there were.
    """
    for attempt in range(retries + 1):
        try:
            return call()
        except ServingError as error:
            if not error.may_pass or retries == 0:
                raise
            if attempt == retries:
                raise type(error)(f"{error} Tried {attempt + 1} times.") from error
        doubled = backoff * 2 ** min(attempt, MOST_DOUBLINGS)
        time.sleep(min(doubled, MOST_SECONDS) * random.uniform(0.5, 1.0))

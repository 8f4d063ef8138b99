"""How many threads an engine computes with."""

import os

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.backend_start import CORES, num_cores

_MOST_BY_DEFAULT = 4  # more are seldom faster, and disturb others


def cpu_threads(num_threads: int | None) -> int:
    """The given number of threads, after a check; else the number of cores, at most 4.

    A worker of a cluster has all the cores of its share.

    Example:
        >>> cpu_threads(2)
        2
    """
    if num_threads is not None:
        check_positive_int("num_threads", num_threads)
        return int(num_threads)
    return num_cores() if CORES in os.environ else min(_MOST_BY_DEFAULT, num_cores())

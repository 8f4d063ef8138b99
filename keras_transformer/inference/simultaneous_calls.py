"""Calls of a compiled function two at a time, where one alone leaves a core idle."""

import collections
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import keras

from keras_transformer.backend_start import MOST_AT_ONCE, THREADS, num_cores

Item = TypeVar("Item")
Result = TypeVar("Result")


def calls_at_once() -> int:
    """How many batches to run at a time.

    A step of a search is many small operations, each too small for all cores: two batches on a CPU
    with TensorFlow, and more if its operations have fewer threads than that. A GPU takes one batch
    after the other anyway, and so does XLA, which compiles a step into few operations.
    """
    if keras.backend.backend() != "tensorflow" or keras.distribution.list_devices("gpu"):
        return 1
    cores = num_cores()
    return min(MOST_AT_ONCE, cores, max(2, cores // _threads_of_an_operation(cores)))


def _threads_of_an_operation(cores: int) -> int:
    import tensorflow as tf

    chosen = tf.config.threading.get_intra_op_parallelism_threads()
    return chosen or int(os.environ.get(THREADS) or 0) or cores


def call_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], at_once: int
) -> Iterator[tuple[Item, Result]]:
    """Yield each item with its result, in order; up to `at_once` calls run in threads.

    Example:
        >>> list(call_in_order(len, ["one", "three"], at_once=2))
        [('one', 3), ('three', 5)]
    """
    if at_once == 1:
        yield from ((item, function(item)) for item in items)
        return
    running: collections.deque[tuple[Item, Future[Result]]] = collections.deque()
    with ThreadPoolExecutor(at_once) as threads:
        for item in items:
            if len(running) == at_once:
                earlier, future = running.popleft()
                yield earlier, future.result()
            running.append((item, threads.submit(function, item)))
        for item, future in running:
            yield item, future.result()

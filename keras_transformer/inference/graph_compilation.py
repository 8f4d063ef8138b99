"""A function of batches of ids as one compiled graph, where the backend has graphs."""

import functools
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transformer.types import Shape

IDS = keras.InputSpec(shape=(None, None), dtype="int32")  # (batch, length)


def compile_function(
    function: Callable[..., Any],
    inputs: Sequence[keras.InputSpec],
    variables: Sequence[keras.Variable],
) -> Callable[..., Any]:
    """Compile a function of batches.

    TensorFlow traces one graph for all shapes. JAX compiles one for each shape, so pad the inputs
    to few of them. On torch the function runs as it is, without gradients. Changes of the variables
    between calls, such as by training, count.

    Args:
        function: takes one tensor per entry of `inputs` and returns a nest of tensors; made of
            `keras.ops`.
        inputs: shape and dtype of each argument; `IDS` is the one of ids.
        variables: the variables that the function reads, such as `model.variables`.

    Returns:
        The same function of arrays; it returns a nest of NumPy arrays.

    Example:
        >>> from keras import ops
        >>> count = compile_function(lambda ids: ops.sum(ops.cast(ids > 0, "int32"), 1), [IDS], [])
        >>> count([[5, 4, 0], [3, 0, 0]]).tolist()
        [2, 1]
    """
    compilers = {
        "tensorflow": _compile_with_tensorflow,
        "jax": _compile_with_jax,
        "torch": _run_with_torch,
    }
    backend = keras.backend.backend()
    if backend not in compilers:
        raise ValueError(f"The Keras backend must be one of {list(compilers)}. Received: {backend}")
    compiled = compilers[backend](function, inputs, variables)

    def call(*arrays):
        return keras.tree.map_structure(keras.ops.convert_to_numpy, compiled(*arrays))

    return call


class GraphCalls:
    """Calls functions of batches, each compiled when it is first called.

    Args:
        models: the models whose variables the functions read.
    """

    def __init__(self, models: Sequence[keras.Model]) -> None:
        self._variables = [variable for model in models for variable in model.variables]
        self._compiled: dict[tuple[Hashable, ...], Callable[..., Any]] = {}
        self._lock = threading.Lock()  # two calls at once make one graph

    def __call__(
        self, function: Callable[..., Any], *arrays: np.ndarray | None, **options: Hashable
    ) -> Any:
        """`function(*arrays, **options)` as NumPy arrays; equal options share one graph.

        Args:
            function: as in `compile_function`.
            *arrays: arrays whose first and last axes vary, such as (batch, length); a None at the
                end is left out.
            **options: the names are the same in every call of `function`.
        """
        given = [array for array in arrays if array is not None]
        inputs = [keras.InputSpec(shape=_shape(array), dtype=str(array.dtype)) for array in given]
        key = (function.__name__, *(spec.shape for spec in inputs), *options.values())
        with self._lock:
            if key not in self._compiled:
                function = functools.partial(function, **options)
                self._compiled[key] = compile_function(function, inputs, self._variables)
        return self._compiled[key](*given)


def _shape(array: np.ndarray) -> Shape:
    return (None, *array.shape[1:-1], None)[: array.ndim]


def pad_ids(
    rows: Sequence[Sequence[int]], padding_id: int, max_length: int | None = None
) -> np.ndarray:
    """Rows of ids as one array; on JAX in one of few shapes, because it compiles for each.

    Args:
        rows: the ids of each row.
        padding_id: id that fills up the rows.
        max_length: number of positions of the model, which no row exceeds; None if unlimited.

    Returns:
        int32 array (batch, length), one row for each of `rows`. On JAX, rows of padding follow
        until their number is a power of 2, and `length` is a multiple of 8, or `max_length`.

    Example:
        >>> pad_ids([[5, 4], [3]], padding_id=0)[:2, :2].tolist()
        [[5, 4], [3, 0]]
    """
    num_rows, length = len(rows), max(1, *map(len, rows))
    if keras.backend.backend() == "jax":
        num_rows = 1 << (num_rows - 1).bit_length()
        length = min(-(-length // 8) * 8, max_length or sys.maxsize)
    array = np.full((num_rows, length), padding_id, dtype="int32")
    for row, ids in zip(array, rows, strict=False):
        row[: len(ids)] = ids
    return array


def _compile_with_tensorflow(
    function: Callable[..., Any],
    inputs: Sequence[keras.InputSpec],
    variables: Sequence[keras.Variable],
) -> Callable[..., Any]:
    import tensorflow as tf

    signature = [tf.TensorSpec(spec.shape, spec.dtype) for spec in inputs]
    return tf.function(function, input_signature=signature, autograph=False)


def _compile_with_jax(
    function: Callable[..., Any],
    inputs: Sequence[keras.InputSpec],
    variables: Sequence[keras.Variable],
) -> Callable[..., Any]:
    import jax

    # What a compiled function closes over becomes a constant of it: the weights must be inputs.
    @jax.jit
    def compiled(values, inputs):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*inputs)

    def call(*arrays):
        return compiled([variable.value for variable in variables], arrays)

    return call


def _run_with_torch(
    function: Callable[..., Any],
    inputs: Sequence[keras.InputSpec],
    variables: Sequence[keras.Variable],
) -> Callable[..., Any]:
    import torch

    @torch.no_grad()
    def call(*arrays):
        return function(*map(keras.ops.convert_to_tensor, arrays))

    return call

"""Calling functions of batches of ids, compiled if the backend compiles."""

import functools
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import keras
import numpy as np

from keras_transformer.decoding.compiled_calls import (
    CompiledCalls,
    JitCompile,
    WithoutNone,
    compiles_with_xla,
)


class GraphCalls:
    """Calls functions of batches; each function is compiled when it is first called.

    TensorFlow traces one graph for all shapes. `CompiledCalls` would trace several, and tracing a
    search takes seconds. On other backends, calls go through `CompiledCalls`. XLA compiles for each
    shape, so with XLA pad the inputs to few shapes. Changes to the weights between calls take
    effect.

    Args:
        models: the models whose variables the functions read.
        jit_compile: see `compiles_with_xla`.

    Attributes:
        with_xla: whether XLA compiles the functions.
    """

    def __init__(self, models: Sequence[keras.Model], jit_compile: JitCompile = "auto") -> None:
        variables = [variable for model in models for variable in model.variables]
        self._by_keras = CompiledCalls(lambda: variables, jit_compile)
        self.with_xla = self._by_keras.with_xla
        self._graphs: dict[tuple[Hashable, ...], Callable[..., Any]] = {}
        self._lock = threading.Lock()  # two calls at once share one graph

    def __call__(
        self, function: Callable[..., Any], *arrays: np.ndarray | None, **options: Hashable
    ) -> Any:
        """`function(*arrays, **options)` as NumPy arrays; equal options share one graph.

        Args:
            function: takes tensors and returns a nested structure of tensors; uses `keras.ops`.
            *arrays: arrays whose first and last axes vary, such as (batch, length), or None.
            **options: options with the same names in every call of `function`.
        """
        function, given = WithoutNone.of(function, arrays)
        if keras.backend.backend() == "tensorflow":
            outputs = self._graph(function, given, options)(*given)
        else:
            tensors = map(keras.ops.convert_to_tensor, given)
            outputs = self._by_keras(function, *tensors, **options)
        return keras.tree.map_structure(keras.ops.convert_to_numpy, outputs)

    def _graph(
        self, function: Callable[..., Any], arrays: list[np.ndarray], options: dict[str, Hashable]
    ) -> Callable[..., Any]:
        import tensorflow as tf

        shapes = [array.shape for array in arrays]
        if not self.with_xla:
            shapes = [(None, *shape[1:-1], None)[: len(shape)] for shape in shapes]
        key = (function, *shapes, *options.values())
        with self._lock:
            if key not in self._graphs:
                self._graphs[key] = tf.function(
                    functools.partial(function, **options),
                    input_signature=[
                        tf.TensorSpec(shape, array.dtype)
                        for shape, array in zip(shapes, arrays, strict=True)
                    ],
                    autograph=False,
                    jit_compile=self.with_xla or None,
                )
        return self._graphs[key]


def pad_ids(
    rows: Sequence[Sequence[int]],
    padding_id: int,
    max_length: int | None = None,
    *,
    jit_compile: JitCompile = "auto",
) -> np.ndarray:
    """Rows of ids as one array; with XLA in one of few shapes, as XLA compiles for each shape.

    Args:
        rows: the ids of each row.
        padding_id: id that pads the rows.
        max_length: number of positions in the model, which no row exceeds; None if unlimited.
        jit_compile: see `compiles_with_xla`.

    Returns:
        int32 array (batch, length), with one row for each of `rows`. With XLA, rows of padding are
        added until the number of rows is a power of 2, and `length` is a multiple of 8, or
        `max_length`.

    Example:
        >>> pad_ids([[5, 4], [3]], padding_id=0)[:2, :2].tolist()
        [[5, 4], [3, 0]]
    """
    num_rows, length = len(rows), max(1, *map(len, rows))
    if compiles_with_xla(jit_compile):
        num_rows = 1 << (num_rows - 1).bit_length()
        length = min(-(-length // 8) * 8, max_length or sys.maxsize)
    array = np.full((num_rows, length), padding_id, dtype="int32")
    for row, ids in zip(array, rows, strict=False):
        row[: len(ids)] = ids
    return array

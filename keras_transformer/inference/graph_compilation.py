"""A function of batches of ids as one compiled graph, on TensorFlow and on JAX."""

import functools
import math

import keras
import numpy as np

IDS = keras.InputSpec(shape=(None, None), dtype="int32")  # (batch, length)


def compile_function(function, inputs, variables):
    """Compile a function of batches.

    TensorFlow traces one graph for all shapes and reads the variables when it runs. JAX compiles
    anew for each shape: pad the inputs to few of them. Either way, a change of the variables
    between calls, by training for instance, is seen by the next call.

    Args:
        function: takes as many tensors as `inputs` has entries and returns a nest of tensors; it is
            made of `keras.ops`.
        inputs: list of `keras.InputSpec`, shape and dtype of each argument; `IDS` is that of ids.
        variables: the `keras.Variable`s that the function reads; a model's are `model.variables`.

    Returns:
        A function of as many arrays that returns a nest of NumPy arrays.

    Example:
        >>> from keras import ops
        >>> count = compile_function(lambda ids: ops.sum(ops.cast(ids > 0, "int32"), 1), [IDS], [])
        >>> count([[5, 4, 0], [3, 0, 0]]).tolist()
        [2, 1]
    """
    compilers = {"tensorflow": _compile_with_tensorflow, "jax": _compile_with_jax}
    backend = keras.backend.backend()
    if backend not in compilers:
        raise ValueError(f"The Keras backend must be one of {list(compilers)}. Received: {backend}")
    compiled = compilers[backend](function, inputs, variables)

    def call(*arrays):
        return keras.tree.map_structure(keras.ops.convert_to_numpy, compiled(*arrays))

    return call


class CompiledCalls:
    """Calls functions of batches, each compiled when it is first called.

    Args:
        models: list of the models whose variables the functions read.
    """

    def __init__(self, models):
        self._variables = [variable for model in models for variable in model.variables]
        self._compiled = {}

    def __call__(self, function, *arrays, **options):
        """`function(*arrays, **options)` as NumPy arrays, by one graph for equal options.

        Args:
            function: as `compile_function` takes it.
            *arrays: of axes of which the first and the last vary, such as (batch, length); None
                at the end is left out.
            **options: values with a hash, the same ones for each `function`.
        """
        arrays = [array for array in arrays if array is not None]
        inputs = [keras.InputSpec(shape=_shape(array), dtype=str(array.dtype)) for array in arrays]
        key = (function.__name__, *(spec.shape for spec in inputs), *options.values())
        if key not in self._compiled:
            function = functools.partial(function, **options)
            self._compiled[key] = compile_function(function, inputs, self._variables)
        return self._compiled[key](*arrays)


def _shape(array):
    return (None, *array.shape[1:-1], None)[: array.ndim]


def pad_ids(rows, padding_id, max_length=None):
    """Rows of ids as one array; on JAX in one of few shapes, because it compiles for each.

    Args:
        rows: list of sequences of int.
        padding_id: what fills up the rows.
        max_length: most positions of a model, which no row exceeds, or None.

    Returns:
        int32 array (batch, length) with a row for each of `rows`; on JAX rows of padding follow,
        so that there are 1, 2, 4, ... of them, and the length is a multiple of 8 or `max_length`.

    Example:
        >>> pad_ids([[5, 4], [3]], padding_id=0)[:2, :2].tolist()
        [[5, 4], [3, 0]]
    """
    num_rows, length = len(rows), max(1, *map(len, rows))
    if keras.backend.backend() == "jax":
        num_rows = 1 << (num_rows - 1).bit_length()
        length = min(-(-length // 8) * 8, max_length or math.inf)
    array = np.full((num_rows, length), padding_id, dtype="int32")
    for row, ids in zip(array, rows, strict=False):
        row[: len(ids)] = ids
    return array


def _compile_with_tensorflow(function, inputs, variables):
    import tensorflow as tf

    signature = [tf.TensorSpec(spec.shape, spec.dtype) for spec in inputs]
    return tf.function(function, input_signature=signature, autograph=False)


def _compile_with_jax(function, inputs, variables):
    import jax

    # Values that a compiled function closes over are constants of it: the weights must be inputs.
    @jax.jit
    def compiled(values, inputs):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*inputs)

    def call(*arrays):
        return compiled([variable.value for variable in variables], arrays)

    return call

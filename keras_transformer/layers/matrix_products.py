"""Products with matrices in few operations, where a graph does not know all sizes."""

from typing import Any

from keras import ops

from keras_transformer.types import Tensor


def times_matrix(inputs: Tensor, matrix: Tensor) -> Tensor:
    """`inputs` (..., rows, input_dim) times `matrix` (input_dim, output_dim), as one product.

    `keras.ops.matmul` does the same by `tf.tensordot`, which computes its shapes in the graph.
    """
    if len(inputs.shape) == 2:
        return ops.matmul(inputs, matrix)
    rows = ops.matmul(ops.reshape(inputs, (-1, inputs.shape[-1])), matrix)
    return ops.reshape(rows, (*sizes(inputs)[:-1], matrix.shape[-1]))


def sizes(tensor: Tensor) -> tuple[Any, ...]:
    """The tensor's sizes for `keras.ops.reshape`, with -1 for the only one that is unknown."""
    known = [-1 if size is None else size for size in tensor.shape]
    return tuple(known) if known.count(-1) <= 1 and 0 not in known else tuple(ops.shape(tensor))

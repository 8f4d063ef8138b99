"""Functions of tensors, compiled on the backend of the test."""

import keras
from keras import ops


def compiled(function, *inputs):
    """The function's outputs from one graph, whose shapes are open where the backend has that.

    On torch the function runs as it is.
    """
    if keras.backend.backend() == "torch":
        outputs = function(*inputs)
    elif keras.backend.backend() == "jax":
        import jax

        outputs = jax.jit(function)(*inputs)
    else:
        import tensorflow as tf

        signature = [tf.TensorSpec([None] * x.ndim, x.dtype) for x in inputs]
        outputs = tf.function(function, input_signature=signature)(*inputs)
    return keras.tree.map_structure(ops.convert_to_numpy, outputs)

"""Functions of tensors, compiled on the backend of the test."""

import keras
import pytest
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


def by_xla(function):
    """The function as XLA compiles it, its arguments unknown while it does."""
    if keras.backend.backend() == "torch":
        pytest.skip("PyTorch has no XLA")
    if keras.backend.backend() == "jax":
        import jax

        return jax.jit(function)
    import tensorflow as tf

    return tf.function(lambda *inputs: function(*inputs), autograph=False, jit_compile=True)

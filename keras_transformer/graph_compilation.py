"""A function of token ids as one compiled graph, on TensorFlow and on JAX."""

import keras


def compile_function(function, num_inputs, variables):
    """Compile a function of token ids.

    TensorFlow traces one graph for all shapes and reads the variables when it runs. JAX compiles
    anew for each shape: pad the inputs to few of them. Either way, a change of the variables
    between calls, by training for instance, is seen by the next call.

    Args:
        function: takes `num_inputs` int32 tensors (batch, length) and returns a nest of tensors; it
            is made of `keras.ops`.
        num_inputs: number of the function's arguments.
        variables: the `keras.Variable`s that the function reads; a model's are `model.variables`.

    Returns:
        A function of `num_inputs` int arrays (batch, length) that returns a nest of NumPy arrays.

    Example:
        >>> from keras import ops
        >>> count = compile_function(lambda ids: ops.sum(ops.cast(ids > 0, "int32"), 1), 1, [])
        >>> count([[5, 4, 0], [3, 0, 0]]).tolist()
        [2, 1]
    """
    compilers = {"tensorflow": _compile_with_tensorflow, "jax": _compile_with_jax}
    backend = keras.backend.backend()
    if backend not in compilers:
        raise ValueError(f"The Keras backend must be one of {list(compilers)}. Received: {backend}")
    compiled = compilers[backend](function, num_inputs, variables)

    def call(*inputs):
        return keras.tree.map_structure(keras.ops.convert_to_numpy, compiled(*inputs))

    return call


def _compile_with_tensorflow(function, num_inputs, variables):
    import tensorflow as tf

    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.function(function, input_signature=[ids] * num_inputs, autograph=False)


def _compile_with_jax(function, num_inputs, variables):
    import jax

    # Values that a compiled function closes over are constants of it: the weights must be inputs.
    @jax.jit
    def compiled(values, inputs):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            return function(*inputs)

    def call(*inputs):
        return compiled([variable.value for variable in variables], inputs)

    return call

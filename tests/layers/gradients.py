"""Gradients of a layer's inputs and weights, on every backend."""

import keras
import numpy as np
from keras import ops


def outputs_and_gradients(layer, inputs, factors, /, **options):
    """A layer's outputs, and the gradients of their sum, each times a factor.

    Args:
        layer: a layer that is built.
        inputs: list of arrays, the positional call arguments.
        factors: array of the shape of the outputs.
        **options: further call arguments.

    Returns:
        outputs: array.
        of_inputs: list of arrays.
        of_weights: dict of arrays by the `id` of the weight.
    """
    backends = {"tensorflow": _by_tensorflow, "jax": _by_jax, "torch": _by_torch}
    compute = backends[keras.backend.backend()]
    inputs = [ops.convert_to_tensor(array) for array in inputs]
    outputs, of_inputs, of_weights = compute(layer, inputs, factors, options)
    names = [id(weight) for weight in layer.trainable_weights]
    return (
        ops.convert_to_numpy(outputs),
        [np.array(gradient) for gradient in of_inputs],
        dict(zip(names, map(np.array, of_weights), strict=True)),
    )


def _by_tensorflow(layer, inputs, factors, options):
    import tensorflow as tf

    values = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(inputs)
        outputs = layer(*inputs, **options)
        total = ops.sum(outputs * factors)
    of_inputs, of_values = tape.gradient(total, [inputs, values])
    return outputs, of_inputs, [tf.convert_to_tensor(each) for each in of_values]


def _by_jax(layer, inputs, factors, options):
    import jax

    def compute(inputs, values):
        others = [weight.value for weight in layer.non_trainable_variables]
        outputs, _ = layer.stateless_call(values, others, *inputs, **options)
        return ops.sum(outputs * factors), outputs

    values = [weight.value for weight in layer.trainable_weights]
    compute_gradients = jax.jit(jax.grad(compute, argnums=(0, 1), has_aux=True))
    gradients, outputs = compute_gradients(inputs, values)
    return outputs, *gradients


def _by_torch(layer, inputs, factors, options):
    import torch

    weights = [weight.value for weight in layer.trainable_weights]
    for tensor in inputs:
        tensor.requires_grad_()
    outputs = layer(*inputs, **options)
    total = ops.sum(outputs * ops.convert_to_tensor(factors))
    gradients = torch.autograd.grad(total, [*inputs, *weights])
    return outputs, gradients[: len(inputs)], gradients[len(inputs) :]

"""The layers, with the forward pass and the gradient in one compiled function."""

from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from benchmarks.table1.layer_types import Sizes
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.types import Tensor

SEED = 1


class MatrixAttention(MultiHeadAttention):
    """Attention that computes the matrix of all pairs at every length."""

    def _can_fuse(self, query: Tensor, key: Tensor, training: bool | None) -> bool:
        return False


class FusedAttention(MultiHeadAttention):
    """Attention that uses `keras.ops.dot_product_attention` at every length."""

    def _can_fuse(self, query: Tensor, key: Tensor, training: bool | None) -> bool:
        return True


def create_layer(name: str, sizes: Sizes) -> keras.layers.Layer:
    """Create a layer of a type, without weights."""
    heads = sizes.num_heads, sizes.hidden_dim // sizes.num_heads
    if name == "full":
        return MatrixAttention(*heads)
    if name == "fused":
        return FusedAttention(*heads)
    if name == "windowed":
        return MultiHeadAttention(*heads, attention_window=sizes.window)
    if name == "lstm":
        return keras.layers.LSTM(sizes.hidden_dim, return_sequences=True)
    return keras.layers.SeparableConv1D(sizes.hidden_dim, sizes.kernel_size, padding="same")


def compiled_pass(name: str, sizes: Sizes, length: int, xla: bool) -> Callable[[], Any]:
    """Return a function that runs the forward pass and its gradient, and waits for the result.

    Args:
        name: name of the layer type.
        sizes: sizes of the layer.
        length: number of positions.
        xla: whether to compile with XLA on TensorFlow; always the case on JAX.
    """
    keras.utils.set_random_seed(SEED)
    layer = create_layer(name, sizes)
    shape = (sizes.batch_size, length, sizes.hidden_dim)
    layer.build(shape)
    generator = np.random.default_rng(SEED)
    inputs, factors = (
        keras.ops.convert_to_tensor(generator.normal(size=shape).astype("float32"))
        for _ in range(2)
    )
    compiled = _jax_pass if keras.backend.backend() == "jax" else _tensorflow_pass
    return compiled(layer, inputs, factors, xla)


def _tensorflow_pass(
    layer: keras.layers.Layer, inputs: Any, factors: Any, xla: bool
) -> Callable[[], Any]:
    import tensorflow as tf

    weights = [weight.value for weight in layer.trainable_weights]

    def training_pass(inputs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            total = tf.reduce_sum(layer(inputs, training=True) * factors)
        return total, tape.gradient(total, [inputs, *weights])

    step = tf.function(training_pass, jit_compile=xla).get_concrete_function(inputs)

    def run() -> Any:
        results = step(inputs)
        tf.test.experimental.sync_devices()
        return results

    return run


def _jax_pass(layer: keras.layers.Layer, inputs: Any, factors: Any, xla: bool) -> Callable[[], Any]:
    import jax

    values = [weight.value for weight in layer.trainable_weights]
    others = [weight.value for weight in layer.non_trainable_variables]

    def total(values: Any, inputs: Any) -> Any:
        outputs, _ = layer.stateless_call(values, others, inputs, training=True)
        return keras.ops.sum(outputs * factors)

    step = jax.jit(jax.value_and_grad(total, argnums=(0, 1)))
    return lambda: jax.block_until_ready(step(values, inputs))

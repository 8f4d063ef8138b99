"""Dropout whose masks cost half of Keras's."""

from typing import Any

import keras
from keras import ops

from keras_transformer.types import Tensor

VALUES = 2**16  # of the random number that decides about an activation


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Keras's dropout with 16 random bits for each activation instead of 32.

    Random numbers are a tenth of a small model's training step on a CPU. The rate is rounded to a
    multiple of 1/65,536, and the scale of what is kept is that of the rounded rate.

    Args:
        rate: fraction of the activations to set to 0, in [0, 1).
        seed: seed of the masks, or None for one of Keras's own.
        **kwargs: `name`, `dtype` and `trainable`, as of `keras.layers.Layer`.

    Call arguments:
        inputs: tensor of any shape.
        training: whether dropout is active.

    Returns:
        Tensor of the shape and the dtype of `inputs`, with its Keras mask.

    Example:
        >>> import numpy as np
        >>> tuple(Dropout(0.1)(np.ones((2, 3), "float32"), training=True).shape)
        (2, 3)

    Reference: Srivastava et al. (2014); Vaswani et al. (2017), section 5.4.
    """

    def __init__(self, rate: float, *, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(rate, seed=seed, **kwargs)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        dropped = min(round(self.rate * VALUES), VALUES - 1)
        if not training or not dropped:
            return inputs
        is_kept = ops.greater_equal(
            _random_bits(self.seed_generator, inputs), ops.cast(dropped, "uint16")
        )
        scale = ops.cast(VALUES / (VALUES - dropped), inputs.dtype)
        return ops.where(is_kept, inputs * scale, ops.zeros((), inputs.dtype))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["noise_shape"]
        return config


def _random_bits(generator: keras.random.SeedGenerator, inputs: Tensor) -> Tensor:
    """Uniform integers below 65,536, uint16, in the shape of `inputs`."""
    seed = generator.next()
    if keras.backend.backend() == "jax":
        import jax

        return jax.random.bits(seed, inputs.shape, "uint16")
    import tensorflow as tf

    # Operations that draw by a seed need int32 for XLA.
    seed = tf.cast(tf.math.floormod(seed, tf.int32.max - 1), tf.int32)
    shape = tf.shape(inputs)
    pairs = tf.concat([shape[:-1], [(shape[-1] + 1) // 2]], axis=0)
    bits = tf.random.stateless_uniform(pairs, seed, minval=None, maxval=None, dtype=tf.uint32)
    return tf.reshape(tf.bitcast(bits, tf.uint16), tf.concat([shape[:-1], [-1]], axis=0))[
        ..., : shape[-1]
    ]

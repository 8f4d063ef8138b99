"""How losses are scaled when several replicas train one model."""

import keras
from keras import ops

from keras_transformer.types import Tensor


def replica_share() -> Tensor:
    """Return 1 / number of replicas in sync, a float32 scalar; 1 without `tf.distribute`.

    Keras sums the replicas' gradients, so it multiplies a mean loss by this factor. It has no
    public name in Keras: here it is read off the mean of a single error of 1.
    """
    return keras.losses.MeanAbsoluteError(dtype="float32")(ops.ones((1, 1)), ops.zeros((1, 1)))


def replica_sum(value: Tensor) -> Tensor:
    """Return the sum of a scalar over the replicas in sync, itself without `tf.distribute`.

    It has no public name in Keras either: here it is read off the mean that synchronized batch
    normalization takes. On other backends a step is one program, whose sums are over all devices.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    mean, _ = ops.moments(ops.reshape(value, (1,)), axes=(0,), synchronized=True)
    return mean / ops.cast(replica_share(), mean.dtype)

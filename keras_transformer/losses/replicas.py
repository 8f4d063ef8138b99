"""How losses are scaled when several replicas train one model."""

import keras
from keras import ops

from keras_transformer.types import Tensor


def replica_share() -> Tensor:
    """Return 1 / number of replicas in sync, a float32 scalar; 1 without `tf.distribute`.

    Keras sums the replicas' gradients, so it multiplies a mean loss by this factor. The factor has
    no public name in Keras, so it is read from the mean of a single error of 1.
    """
    return keras.losses.MeanAbsoluteError(dtype="float32")(ops.ones((1, 1)), ops.zeros((1, 1)))


def replica_sum(value: Tensor) -> Tensor:
    """Return a scalar's sum over the replicas in sync, or the scalar without `tf.distribute`.

    The sum has no public name in Keras either, so it is computed from the mean of synchronized
    batch normalization. On other backends a step is one program, whose sums cover all devices.
    """
    if keras.backend.backend() != "tensorflow":
        return value
    mean, _ = ops.moments(ops.reshape(value, (1,)), axes=(0,), synchronized=True)
    return mean / ops.cast(replica_share(), mean.dtype)

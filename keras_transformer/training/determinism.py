"""Trainings that can be repeated."""

import keras

from keras_transformer.backend_start import held_stderr


def make_reproducible(seed: int, deterministic: bool = True) -> None:
    """Seed all random generators and, optionally, make operations deterministic.

    With both, two trainings with the same seed on one machine have bit-equal losses on a CPU. With
    the seed alone they draw the same numbers, and their losses drift apart slowly by rounding.
    Call it before the model is built. JAX's operations on a CPU are always deterministic.

    Args:
        seed: seed of all generators.
        deterministic: whether TensorFlow's operations must be deterministic; they are slower.
    """
    # Keras also seeds an installed TensorFlow, and on JAX imports it for that.
    with held_stderr():
        keras.utils.set_random_seed(seed)
    if deterministic and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()

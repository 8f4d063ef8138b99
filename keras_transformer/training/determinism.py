"""Trainings that can be repeated."""

import keras

from keras_transformer.backend_start import held_stderr


def make_reproducible(seed, deterministic=True):
    """Seed every random generator and, on demand, ask for operations that add in a fixed order.

    With both, two trainings with one seed on one machine have bit-equal losses on a CPU. With the
    seed alone they draw the same numbers, and their losses part slowly by rounding. To be called
    before the model is built. JAX's operations on a CPU are deterministic as they are.

    Args:
        seed: integer.
        deterministic: whether TensorFlow's operations must be deterministic; they are slower.
    """
    # Keras seeds TensorFlow as well where that is installed, and on JAX imports it for that.
    with held_stderr():
        keras.utils.set_random_seed(seed)
    if deterministic and keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()

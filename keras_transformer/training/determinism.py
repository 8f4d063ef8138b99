"""Trainings that can be repeated."""

import keras


def make_reproducible(seed):
    """Seed every random generator and ask for operations that always add in the same order.

    Two trainings with one seed on one machine then have bit-equal losses on a CPU. To be called
    before the model is built. JAX's operations on a CPU are deterministic as they are.

    Args:
        seed: integer.
    """
    keras.utils.set_random_seed(seed)
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.config.experimental.enable_op_determinism()

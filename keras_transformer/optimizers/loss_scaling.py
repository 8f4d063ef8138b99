"""Optimizers that scale the loss, as float16 needs."""

import keras


def inner_optimizer(optimizer: keras.optimizers.Optimizer) -> keras.optimizers.Optimizer:
    """Return the optimizer inside a `LossScaleOptimizer`, and any other as it is.

    Args:
        optimizer: a `keras.optimizers.Optimizer`.

    Example:
        >>> adam = keras.optimizers.Adam()
        >>> inner_optimizer(keras.optimizers.LossScaleOptimizer(adam)) is adam
        True
        >>> inner_optimizer(adam) is adam
        True
    """
    return getattr(optimizer, "inner_optimizer", optimizer)

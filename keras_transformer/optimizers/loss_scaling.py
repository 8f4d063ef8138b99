"""What scales the loss, as float16 needs it, around the optimizer that updates."""


def inner_optimizer(optimizer):
    """Return the optimizer that updates: a `LossScaleOptimizer` hands on to another.

    Args:
        optimizer: a `keras.optimizers.Optimizer`.

    Example:
        >>> import keras
        >>> adam = keras.optimizers.Adam()
        >>> inner_optimizer(keras.optimizers.LossScaleOptimizer(adam)) is adam
        True
        >>> inner_optimizer(adam) is adam
        True
    """
    return getattr(optimizer, "inner_optimizer", optimizer)

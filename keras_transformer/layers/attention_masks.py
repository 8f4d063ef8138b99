"""Attention masks. Everywhere in this package True means: this position may be attended to."""

from keras import ops


def padding_mask(ids, padding_id):
    """Mask of the real tokens.

    Args:
        ids: integer tensor (batch, length).
        padding_id: the id that fills rows up.

    Returns:
        Boolean tensor (batch, 1, length), for any number of query positions.
    """
    return ops.expand_dims(ops.not_equal(ids, padding_id), 1)


def causal_mask(length):
    """Mask that lets position i attend to positions 0 to i.

    Args:
        length: int or scalar integer tensor.

    Returns:
        Boolean tensor (1, length, length).
    """
    positions = ops.arange(length)
    allowed = ops.greater_equal(ops.expand_dims(positions, 1), ops.expand_dims(positions, 0))
    return ops.expand_dims(allowed, 0)

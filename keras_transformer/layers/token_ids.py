"""Ids of tokens as layers get them: of any type, and perhaps wrong."""

from keras import ops

from keras_transformer.argument_checks import known_values
from keras_transformer.types import Tensor


def as_ids(inputs: Tensor, vocabulary_size: int) -> Tensor:
    """Ids as int32, as `keras.layers.Embedding` takes them.

    Args:
        inputs: tensor of any real type and any shape.
        vocabulary_size: number of tokens.

    Returns:
        int32 tensor.

    Raises:
        ValueError: an id is not a whole number, or is outside of the vocabulary. That is checked
            where the values are known: in a compiled function, ids are as those of Keras's layer.
    """
    values = known_values(inputs)
    if values is not None and values.size:
        least, most = values.min(), values.max()
        if not (least >= 0 and most < vocabulary_size):  # nor is NaN
            wrong = most if least >= 0 else least
            raise ValueError(
                f"`inputs` must be ids from 0 to {vocabulary_size - 1}, the vocabulary's. "
                f"Received: id {wrong}"
            )
        if values.dtype.kind not in "iub" and (values % 1).any():
            raise ValueError(
                f"`inputs` must be ids, whole numbers. Received: {values[values % 1 != 0][0]}"
            )
    return ops.cast(inputs, "int32")

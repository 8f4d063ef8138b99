"""The padding mask as a layer, so that a saved model knows its padding id."""

from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, check_non_negative_int
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class PaddingMask(KeepsArguments, keras.layers.Layer):
    """Mask of the real tokens of a padded batch.

    Args:
        padding_id: id that fills up rows.
        hidden_id: a further id that is not attended to, such as EOS in a model that was trained
            without EOS in its sources; None: no id.
        **kwargs: `name`, `dtype` and `trainable`, as in `keras.layers.Layer`.

    Call arguments:
        ids: tensor (batch, length), of any real type.

    Returns:
        Boolean tensor (batch, 1, length), True = may be attended to.

    Raises:
        ValueError: an id is negative or not an integer.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in PaddingMask()(np.array([[5, 2, 0]]))[0, 0]]
        [1, 1, 0]
    """

    def __init__(self, *, padding_id: int = 0, hidden_id: int | None = None, **kwargs: Any) -> None:
        # Ids given as floats would lose their last digits in the compute dtype.
        super().__init__(**{**kwargs, "autocast": False})
        check_non_negative_int("padding_id", padding_id)
        if hidden_id is not None:
            check_non_negative_int("hidden_id", hidden_id)

    def call(self, ids: Tensor) -> Tensor:
        is_seen = ops.not_equal(ids, self.padding_id)
        if self.hidden_id is not None:
            is_seen = ops.logical_and(is_seen, ops.not_equal(ids, self.hidden_id))
        return ops.expand_dims(is_seen, 1)

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        return (ids_shape[0], 1, ids_shape[1])

    def compute_output_spec(self, ids: Tensor) -> keras.KerasTensor:
        return keras.KerasTensor(self.compute_output_shape(ids.shape), dtype="bool")

"""The padding mask as a layer, so that a saved model knows its padding id."""

import keras

from keras_transformer.layers.attention_masks import padding_mask


@keras.saving.register_keras_serializable(package="keras_transformer")
class PaddingMask(keras.layers.Layer):
    """Mask of the real tokens of a padded batch.

    Args:
        padding_id: the id that fills rows up.

    Call arguments:
        ids: integer tensor (batch, length).

    Returns:
        Boolean tensor (batch, 1, length), True = may be attended to.

    Example:
        >>> import numpy as np
        >>> [int(x) for x in PaddingMask()(np.array([[5, 2, 0]]))[0, 0]]
        [1, 1, 0]
    """

    def __init__(self, padding_id=0, **kwargs):
        super().__init__(**kwargs)
        self.padding_id = padding_id

    def call(self, ids):
        return padding_mask(ids, self.padding_id)

    def compute_output_spec(self, ids):
        return keras.KerasTensor((ids.shape[0], 1, ids.shape[1]), dtype="bool")

    def get_config(self):
        return {**super().get_config(), "padding_id": self.padding_id}

"""The reversible embedding matrix: ids to vectors, vectors to logits."""

import keras
from keras import ops

from keras_transformer.argument_checks import check_positive_int


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """One matrix that embeds tokens and, transposed, gives the logits over the vocabulary.

    It is initialised normal with standard deviation `hidden_dim ** -0.5`, so that embeddings scaled
    by `sqrt(hidden_dim)` and logits of unit-variance vectors both have unit variance.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.

    Call arguments:
        inputs: integer ids (batch, length); with `reverse` vectors (batch, length, hidden_dim).
        reverse: whether to compute logits.

    Returns:
        Vectors (batch, length, hidden_dim), not scaled; with `reverse` float32 logits
        (batch, length, vocabulary_size): the product is computed in the layer's compute dtype.

    Raises:
        ValueError: a size is no positive integer.

    Example:
        >>> import numpy as np
        >>> layer = TokenEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> tuple(layer(layer(np.array([[1, 2, 3]])), reverse=True).shape)
        (1, 3, 10)

    Reference: Vaswani et al. (2017), section 3.4; Press and Wolf (2017).
    """

    def __init__(self, vocabulary_size, hidden_dim, **kwargs):
        super().__init__(**kwargs)
        check_positive_int("vocabulary_size", vocabulary_size)
        check_positive_int("hidden_dim", hidden_dim)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim

    def build(self, inputs_shape=None):
        self.matrix = self.add_weight(
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5),
            # Taken as it is: see `call`.
            autocast=False,
            name="matrix",
        )

    def call(self, inputs, reverse=False):
        if reverse:
            matrix = ops.cast(self.matrix, self.compute_dtype)
            return ops.cast(ops.matmul(inputs, ops.transpose(matrix)), "float32")
        # Rows are cast, not the matrix: then a row's gradients are added up in the dtype of the
        # weights. In bfloat16 the sum of a frequent token's would stand still at a few hundred.
        return ops.cast(ops.take(self.matrix, inputs, axis=0), self.compute_dtype)

    def compute_output_spec(self, inputs, reverse=False):
        if reverse:
            return keras.KerasTensor((*inputs.shape[:-1], self.vocabulary_size), "float32")
        return keras.KerasTensor((*inputs.shape, self.hidden_dim), self.compute_dtype)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
        }

"""The reversible embedding matrix: ids to vectors, vectors to logits."""

from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import check_bool, check_positive_int, python_number
from keras_transformer.layers.matrix_products import times_matrix
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(keras.layers.Layer):
    """Embeds tokens and, called with `reverse=True`, computes the logits over the vocabulary.

    By default one matrix does both. Matrices start normal with standard deviation
    `hidden_dim ** -0.5`, so that embeddings scaled by `sqrt(hidden_dim)` and logits of
    unit-variance vectors both have unit variance.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.
        tie_weights: whether the logits use the matrix of the embeddings, transposed; False gives
            them a matrix of their own, `reverse_matrix`.
        use_logits_bias: whether a bias is added to the logits.
        **kwargs: arguments of `keras.layers.Layer`: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: integer ids (batch, length); with `reverse` vectors (batch, length, hidden_dim).
        reverse: whether to compute logits.

    Returns:
        Vectors (batch, length, hidden_dim), not scaled; with `reverse` float32 logits
        (batch, length, vocabulary_size). The product is computed in the layer's compute dtype.

    Raises:
        ValueError: a size is not a positive integer, `tie_weights` or `use_logits_bias` is not
            a boolean, or ids are not of an integer type.

    Example:
        >>> import numpy as np
        >>> layer = TokenEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> tuple(layer(layer(np.array([[1, 2, 3]])), reverse=True).shape)
        (1, 3, 10)

    Reference: Vaswani et al. (2017), section 3.4; Press and Wolf (2017).
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        *,
        tie_weights: bool = True,
        use_logits_bias: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_positive_int("vocabulary_size", vocabulary_size)
        check_positive_int("hidden_dim", hidden_dim)
        check_bool("tie_weights", tie_weights)
        check_bool("use_logits_bias", use_logits_bias)
        self.vocabulary_size = python_number(vocabulary_size)
        self.hidden_dim = python_number(hidden_dim)
        self.tie_weights = tie_weights
        self.use_logits_bias = use_logits_bias
        self.supports_masking = True

    def build(self, inputs_shape: Shape | None = None) -> None:
        self.matrix = self._add_matrix("matrix", (self.vocabulary_size, self.hidden_dim))
        if not self.tie_weights:
            self.reverse_matrix = self._add_matrix(
                "reverse_matrix", (self.hidden_dim, self.vocabulary_size)
            )
        self.logits_bias = None
        if self.use_logits_bias:
            self.logits_bias = self.add_weight(
                shape=(self.vocabulary_size,),
                initializer="zeros",
                autocast=False,
                name="logits_bias",
            )

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if reverse:
            return self.logits(inputs, self.output_matrix())
        _check_ids(inputs)
        # Rows are cast, not the matrix: then a row's gradients are added up in the dtype of the
        # weights. In bfloat16 the sum of a frequent token's would stand still at a few hundred.
        return ops.cast(ops.take(self.matrix, inputs, axis=0), self.compute_dtype)

    def compute_output_spec(self, inputs: Tensor, reverse: bool = False) -> keras.KerasTensor:
        shape = self.compute_output_shape(inputs.shape, reverse)
        if reverse:
            return keras.KerasTensor(shape, "float32")
        _check_ids(inputs)
        return keras.KerasTensor(shape, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, reverse: bool = False) -> Shape:
        if reverse:
            return (*inputs_shape[:-1], self.vocabulary_size)
        return (*inputs_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "tie_weights": self.tie_weights,
            "use_logits_bias": self.use_logits_bias,
        }

    def output_matrix(self) -> Tensor:
        """The matrix (hidden_dim, vocabulary_size) of `logits`, in the compute dtype."""
        if self.tie_weights:
            return ops.transpose(ops.cast(self.matrix, self.compute_dtype))
        return ops.cast(self.reverse_matrix, self.compute_dtype)

    def logits(self, inputs: Tensor, output_matrix: Tensor) -> Tensor:
        """As a call with `reverse=True`, with a matrix that was made before."""
        inputs = ops.cast(inputs, self.compute_dtype)
        logits = ops.cast(times_matrix(inputs, output_matrix), "float32")
        if self.logits_bias is None:
            return logits
        return logits + ops.cast(self.logits_bias, "float32")

    def _add_matrix(self, name: str, shape: tuple[int, int]) -> Any:
        return self.add_weight(
            shape=shape,
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5),
            # Taken as it is: see `call`.
            autocast=False,
            name=name,
        )


def _check_ids(ids: Tensor) -> None:
    dtype = keras.backend.standardize_dtype(ids.dtype)
    if "int" not in dtype:
        raise ValueError(
            '`inputs` must be ids of an integer type, such as `keras.Input(..., dtype="int32")`. '
            f"Received: dtype {dtype}"
        )

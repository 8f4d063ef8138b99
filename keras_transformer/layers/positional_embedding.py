"""Token embeddings with positions: the input of the encoder and of the decoder."""

import math

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import (
    check_one_of,
    check_positive_int,
    check_rate,
)
from keras_transformer.layers.bias_addition import add_bias
from keras_transformer.layers.token_embedding import TokenEmbedding

POSITIONS = ("sinusoidal", "learned")


def sinusoidal_positions(positions, hidden_dim):
    """Interleaved sines and cosines: PE(pos, 2i) = sin, PE(pos, 2i+1) = cos of pos / 10000^(2i/d).

    Args:
        positions: integer tensor (length,).
        hidden_dim: size of a position's vector.

    Returns:
        float32 tensor (length, hidden_dim).

    Reference: Vaswani et al. (2017), section 3.5.
    """
    pairs = (hidden_dim + 1) // 2
    frequencies = 10000.0 ** (-2.0 * np.arange(pairs) / hidden_dim)
    angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * ops.convert_to_tensor(
        frequencies[np.newaxis], dtype="float32"
    )  # (length, pairs)
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (length, pairs, 2)
    return ops.reshape(waves, (-1, 2 * pairs))[:, :hidden_dim]


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionalEmbedding(keras.layers.Layer):
    """Embeds tokens, scales by `sqrt(hidden_dim)`, adds positions, applies dropout.

    It holds a `TokenEmbedding`; with `reverse` that one's matrix gives the logits. So one
    `PositionalEmbedding` serves source, target and output where they share a vocabulary.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.
        positions: "sinusoidal" (computed in float32, no limit of length) or "learned".
        max_length: number of learned positions.
        num_tables: number of learned tables, such as one for the source and one for the target.
        dropout: rate of dropout on the sums.

    Call arguments:
        inputs: integer ids (batch, length); with `reverse` vectors (batch, length, hidden_dim).
        table: which learned table to add.
        reverse: whether to compute logits.
        training: whether dropout is active.

    Returns:
        Tensor (batch, length, hidden_dim); with `reverse` float32 logits
        (batch, length, vocabulary_size).

    Raises:
        ValueError: an argument breaks its rule, or a sequence is longer than `max_length` where
            positions are learned.

    Example:
        >>> import numpy as np
        >>> layer = PositionalEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> tuple(layer(np.array([[1, 2, 3]])).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), sections 3.4, 3.5 and 5.4; Table 3, row E.
    """

    def __init__(
        self,
        vocabulary_size,
        hidden_dim,
        positions="sinusoidal",
        max_length=1024,
        num_tables=1,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_one_of("positions", positions, POSITIONS)
        check_positive_int("max_length", max_length)
        check_positive_int("num_tables", num_tables)
        check_rate("dropout", dropout)
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.positions = positions
        self.max_length = max_length
        self.num_tables = num_tables
        self.dropout = dropout
        self.token_embedding = TokenEmbedding(
            vocabulary_size, hidden_dim, dtype=self.dtype_policy, name="token_embedding"
        )
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)

    def build(self, inputs_shape=None):
        self.token_embedding.build()
        self.tables = []
        if self.positions == "learned":
            self.tables = [
                self.add_weight(
                    shape=(self.max_length, self.hidden_dim),
                    initializer=keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5),
                    name=f"positions_{number}",
                )
                for number in range(self.num_tables)
            ]

    def call(self, inputs, table=0, reverse=False, training=None):
        if reverse:
            return self.token_embedding(inputs, reverse=True)
        self._check_length(inputs.shape[1])
        return self._embed(inputs, ops.arange(ops.shape(inputs)[1]), table, training)

    def step(self, ids, index, table=0):
        """Embed the tokens of one position.

        Args:
            ids: integer tensor (batch, beams).
            index: scalar integer tensor, the position, counted from 0.
            table: which learned table to add.

        Returns:
            Tensor (batch, beams, hidden_dim).
        """
        return self._embed(ids, ops.reshape(index, (1,)), table, training=False)

    def _embed(self, ids, positions, table, training):
        vectors = self.token_embedding(ids) * ops.cast(
            math.sqrt(self.hidden_dim), self.compute_dtype
        )
        vectors = add_bias(vectors, self._position_vectors(positions, table))
        return self.dropout_layer(vectors, training=training)

    def _position_vectors(self, positions, table):
        if self.positions == "sinusoidal":
            return sinusoidal_positions(positions, self.hidden_dim)
        return ops.take(self.tables[table], positions, axis=0)

    def _check_length(self, length):
        if self.positions == "learned" and length is not None and length > self.max_length:
            raise ValueError(
                f"Sequences must not be longer than the learned positions, `max_length`. "
                f"Received: length={length}, max_length={self.max_length}"
            )

    def compute_output_spec(self, inputs, table=0, reverse=False, training=None):
        return self.token_embedding.compute_output_spec(inputs, reverse=reverse)

    def get_config(self):
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "positions": self.positions,
            "max_length": self.max_length,
            "num_tables": self.num_tables,
            "dropout": self.dropout,
        }

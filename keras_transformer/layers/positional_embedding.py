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
from keras_transformer.layers.word_positions import WordCounter

POSITIONS = ("sinusoidal", "learned", "words")
# Places in a word that have a vector of their own; farther ones share the last.
NUM_PLACES = 32


def sinusoidal_positions(positions, hidden_dim):
    """Interleaved sines and cosines: PE(pos, 2i) = sin, PE(pos, 2i+1) = cos of pos / 10000^(2i/d).

    Args:
        positions: integer tensor of any shape.
        hidden_dim: size of a position's vector.

    Returns:
        float32 tensor (..., hidden_dim).

    Reference: Vaswani et al. (2017), section 3.5.
    """
    pairs = (hidden_dim + 1) // 2
    frequencies = 10000.0 ** (-2.0 * np.arange(pairs) / hidden_dim)
    angles = ops.expand_dims(ops.cast(positions, "float32"), -1) * ops.convert_to_tensor(
        frequencies, dtype="float32"
    )  # (..., pairs)
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (..., pairs, 2)
    waves = ops.reshape(waves, (*ops.shape(positions), 2 * pairs))
    return waves[..., :hidden_dim]


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionalEmbedding(keras.layers.Layer):
    """Embeds tokens, scales by `sqrt(hidden_dim)`, adds positions, applies dropout.

    It holds a `TokenEmbedding`; with `reverse` that one's matrix gives the logits. So one
    `PositionalEmbedding` serves source, target and output where they share a vocabulary.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.
        positions: "sinusoidal" (computed in float32, no limit of length), "learned" or "words".
            With "words" a token has the sinusoids of its word's number and a learned vector for its
            place in the word: where each word of a source gives one token of the target, as in
            parsing, equal words of both have equal numbers.
        max_length: number of learned positions.
        num_tables: number of learned tables, such as one for the source and one for the target.
        word_starts: with "words", the ids that a word begins with; None otherwise.
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

    Reference: Vaswani et al. (2017), sections 3.4, 3.5 and 5.4; Table 3, row E. Counts on several
        levels: Bai et al., "Segatron: Segment-Aware Transformer for Language Modeling and
        Understanding", 2021.
    """

    def __init__(
        self,
        vocabulary_size,
        hidden_dim,
        positions="sinusoidal",
        max_length=1024,
        num_tables=1,
        word_starts=None,
        dropout=0.0,
        **kwargs,
    ):
        super().__init__(**kwargs)
        check_one_of("positions", positions, POSITIONS)
        check_positive_int("max_length", max_length)
        check_positive_int("num_tables", num_tables)
        check_rate("dropout", dropout)
        if (positions == "words") != (word_starts is not None):
            raise ValueError(
                '`word_starts` must be given with `positions="words"`, and only there. Received: '
                f"positions={positions!r}, word_starts={word_starts}"
            )
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.positions = positions
        self.max_length = max_length
        self.num_tables = num_tables
        self.word_starts = None if word_starts is None else [int(token) for token in word_starts]
        self.dropout = dropout
        self.token_embedding = TokenEmbedding(
            vocabulary_size, hidden_dim, dtype=self.dtype_policy, name="token_embedding"
        )
        self.dropout_layer = keras.layers.Dropout(dropout, dtype=self.dtype_policy)
        if positions == "words":
            self._counter = WordCounter(vocabulary_size, self.word_starts)

    def build(self, inputs_shape=None):
        self.token_embedding.build()
        self.tables = []
        if self.positions == "learned":
            self.tables = [
                self._add_table(f"positions_{number}", self.max_length)
                for number in range(self.num_tables)
            ]
        elif self.positions == "words":
            self.places = self._add_table("places", NUM_PLACES)

    def call(self, inputs, table=0, reverse=False, training=None):
        if reverse:
            return self.token_embedding(inputs, reverse=True)
        self._check_length(inputs.shape[1])
        if self.positions == "words":
            vectors = self._word_vectors(self._counter.positions(inputs))
        else:
            vectors = self._position_vectors(ops.arange(ops.shape(inputs)[1]), table)
        return self._embed(inputs, vectors, training)

    def start_cache(self, batch_size, beam_size):
        """What `step` counts with: a nest of tensors (batch, beams), empty if it counts nothing."""
        if self.positions == "words":
            return self._counter.start((batch_size, beam_size))
        return ()

    def step(self, ids, index, cache, table=0):
        """Embed the tokens of one position.

        Args:
            ids: integer tensor (batch, beams).
            index: scalar integer tensor, the position, counted from 0.
            cache: as `start_cache` returned it, or the step before.
            table: which learned table to add.

        Returns:
            vectors: tensor (batch, beams, hidden_dim).
            cache: the given one after this position.
        """
        if self.positions == "words":
            cache = self._counter.step(ids, cache)
            vectors = self._word_vectors(cache)
        else:
            vectors = self._position_vectors(ops.reshape(index, (1,)), table)
        return self._embed(ids, vectors, training=False), cache

    def _embed(self, ids, position_vectors, training):
        vectors = self.token_embedding(ids) * ops.cast(
            math.sqrt(self.hidden_dim), self.compute_dtype
        )
        return self.dropout_layer(add_bias(vectors, position_vectors), training=training)

    def _position_vectors(self, positions, table):
        if self.positions == "sinusoidal":
            return sinusoidal_positions(positions, self.hidden_dim)
        return ops.take(self.tables[table], positions, axis=0)

    def _word_vectors(self, positions):
        places = ops.take(self.places, ops.minimum(positions.places, NUM_PLACES - 1), axis=0)
        return add_bias(sinusoidal_positions(positions.words, self.hidden_dim), places)

    def _add_table(self, name, length):
        return self.add_weight(
            shape=(length, self.hidden_dim),
            initializer=keras.initializers.RandomNormal(stddev=self.hidden_dim**-0.5),
            name=name,
        )

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
            "word_starts": self.word_starts,
            "dropout": self.dropout,
        }

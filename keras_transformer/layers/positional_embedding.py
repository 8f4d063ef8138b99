"""Token embeddings with positions: the input of the encoder and of the decoder."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import (
    check_non_negative_int,
    check_positive_int,
    check_rate,
    check_seed,
)
from keras_transformer.layers.composite_layer import CompositeLayer, part_seeds
from keras_transformer.layers.dense import add_bias
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.positions import positions_class
from keras_transformer.layers.token_embedding import TokenEmbedding, as_ids
from keras_transformer.types import Shape, Tensor

_MOST_TABLES = 1000


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionalEmbedding(CompositeLayer):
    """Embeds tokens, scales them by `sqrt(hidden_dim)`, adds positions and applies dropout.

    The layer holds a `TokenEmbedding`. Called with `reverse=True` it computes the logits over the
    vocabulary, so one layer serves source, target and output if they share a vocabulary.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.
        positions: kind of positions: "sinusoidal" (for any length), "learned", "words", "rotary",
            or your own (see `keras_transformer.layers.positions.register_positions`). With
            "rotary", nothing is added here: the attention applies the positions, by its argument of
            the same name. With "words", a token gets the sinusoids of its word's number and a
            learned vector for its place in the word. If each source word gives one target token, as
            in parsing, corresponding words have the same number on both sides.
        max_length: number of learned positions.
        num_tables: number of learned tables, such as one for the source and one for the target.
        word_starts: with "words", the ids that begin a word; None otherwise.
        tie_weights: whether the logits use the embedding matrix; False gives them their own matrix.
        use_logits_bias: whether a bias is added to the logits.
        dropout: rate of dropout on the sums of tokens and positions.
        word_dropout: rate at which a token loses its whole vector in training and keeps only its
            position; the other vectors are scaled up, as in `keras.layers.Dropout`.
        mask_id: id of padding, such as 0. The output then carries a Keras mask of the other ids, as
            with `keras.layers.Embedding(mask_zero=True)`. None: no mask.
        zero_id: id whose embedding is a zero vector, whatever its row of the matrix, such as the
            first input of Marian's decoders; None: no id.
        embeddings_regularizer: regularizer of the embedding matrix, or None.
        embeddings_constraint: constraint of the embedding matrix, or None.
        seed: integer from which both dropouts get seeds; None: Keras chooses them.
        **kwargs: arguments of `keras.layers.Layer`: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: ids (batch, length), of any real type; with `reverse` vectors
            (batch, length, hidden_dim).
        table: number of the learned table to add, counted from 0.
        reverse: whether to compute logits.
        training: whether dropout is active.
        segments: int32 tensor (batch, length), for rows that hold several sequences: the number of
            each position's sequence, counted from 0. Positions start over in each sequence, and a
            row may be longer than `max_length`. None: a row is one sequence.

    Returns:
        Tensor (batch, length, hidden_dim); with `reverse` float32 logits
        (batch, length, vocabulary_size).

    Raises:
        ValueError: an argument breaks its rule, ids have a wrong rank, a sequence is longer than
            `max_length` with learned positions, or an id is not a whole number or is outside the
            vocabulary. Ids are checked only if their values are known, so not in a compiled
            function.

    Example:
        >>> import numpy as np
        >>> layer = PositionalEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> tuple(layer(np.array([[1, 2, 3]])).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), sections 3.4, 3.5 and 5.4; Table 3, row E. Counts on several
        levels: Bai et al., "Segatron: Segment-Aware Transformer for Language Modeling and
        Understanding", 2021. Word dropout: Gal and Ghahramani, "A Theoretically Grounded
        Application of Dropout in Recurrent Neural Networks", 2016; Sennrich and Zhang, "Revisiting
        Low-Resource Neural Machine Translation: A Case Study", 2019.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        *,
        positions: str = "sinusoidal",
        max_length: int = 1024,
        num_tables: int = 1,
        word_starts: Sequence[int] | None = None,
        tie_weights: bool = True,
        use_logits_bias: bool = False,
        dropout: float = 0.0,
        word_dropout: float = 0.0,
        mask_id: int | None = None,
        zero_id: int | None = None,
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        # Ids given as floats would lose their last digits in the compute dtype.
        super().__init__(**{**kwargs, "autocast": False})
        check_positive_int("max_length", max_length)
        check_positive_int("num_tables", num_tables)
        if num_tables > _MOST_TABLES:
            raise ValueError(
                f"`num_tables` must be at most {_MOST_TABLES}. Received: num_tables={num_tables}"
            )
        check_rate("dropout", dropout)
        check_rate("word_dropout", word_dropout)
        for name, token in (("mask_id", mask_id), ("zero_id", zero_id)):
            if token is not None:
                check_non_negative_int(name, token)
                if token >= vocabulary_size:
                    raise ValueError(
                        f"`{name}` must be less than `vocabulary_size`. "
                        f"Received: {name}={token}, vocabulary_size={vocabulary_size}"
                    )
        check_seed("seed", seed)
        if word_starts is not None:
            self.word_starts = [int(token) for token in word_starts]
        self.token_embedding = TokenEmbedding(
            self.vocabulary_size,
            self.hidden_dim,
            tie_weights=tie_weights,
            use_logits_bias=use_logits_bias,
            embeddings_regularizer=self.embeddings_regularizer,
            embeddings_constraint=self.embeddings_constraint,
            dtype=self.dtype_policy,
            name="token_embedding",
        )
        seed, word_seed = part_seeds(self.seed, 2)
        self.dropout_layer = Dropout(dropout, seed=seed, dtype=self.dtype_policy, name="dropout")
        self.word_dropout_layer = keras.layers.Dropout(
            self.word_dropout,
            noise_shape=(None, None, 1),
            seed=word_seed,
            dtype=self.dtype_policy,
            name="word_dropout",
        )
        self.kind = positions_class(positions)(
            vocabulary_size=self.vocabulary_size,
            hidden_dim=self.hidden_dim,
            max_length=self.max_length,
            num_tables=self.num_tables,
            word_starts=self.word_starts,
        )

    def build(self, inputs_shape: Shape | None = None) -> None:
        self.token_embedding.build()
        self.kind.build(self)
        self.finish_build()

    def add_weight(self, *args: Any, **options: Any) -> Any:
        """Same as in `keras.layers.Layer`; a SavedModel holds only weights that are attributes."""
        weight = super().add_weight(*args, **options)
        setattr(self, f"{weight.name}_weight", weight)
        return weight

    def call(
        self,
        inputs: Tensor,
        table: int = 0,
        reverse: bool = False,
        training: bool | None = None,
        segments: Tensor = None,
    ) -> Tensor:
        if reverse:
            return self.token_embedding(inputs, reverse=True)
        ids = as_ids(inputs, self.vocabulary_size)
        if segments is not None:
            return self._embed(ids, self.kind.packed_vectors(ids, segments, table), training)
        self._check_shape(inputs.shape)
        return self._embed(ids, self.kind.vectors(ids, table), training)

    def start_cache(self, batch_size: Any, beam_size: Any) -> Any:
        """The counters of `step`: a nest of tensors (batch, beams), empty if it counts nothing."""
        return self.kind.start_cache((batch_size, beam_size))

    def step(self, ids: Tensor, index: Tensor, cache: Any, table: int = 0) -> tuple[Tensor, Any]:
        """Embed the tokens of one position.

        Args:
            ids: integer tensor (batch, beams).
            index: scalar integer tensor, the position, counted from 0.
            cache: from `start_cache` or from the previous step.
            table: number of the learned table to add, counted from 0.

        Returns:
            vectors: tensor (batch, beams, hidden_dim).
            cache: the given cache after this position.
        """
        vectors, cache = self.kind.step(ids, index, cache, table)
        return self._embed(ids, vectors, training=False), cache

    def compute_mask(self, inputs: Tensor, previous_mask: Tensor | None = None) -> Tensor | None:
        is_reverse = len(inputs.shape) == 3
        if is_reverse or self.mask_id is None:
            return previous_mask
        return ops.not_equal(inputs, self.mask_id)

    def _embed(self, ids: Tensor, position_vectors: Tensor | None, training: bool | None) -> Tensor:
        vectors = self.token_embedding(ids) * ops.cast(
            math.sqrt(self.hidden_dim), self.compute_dtype
        )
        if self.zero_id is not None:
            is_there = ops.cast(ops.not_equal(ids, self.zero_id), self.compute_dtype)
            vectors = vectors * ops.expand_dims(is_there, -1)
        vectors = self.word_dropout_layer(vectors, training=training)
        if position_vectors is not None:
            vectors = add_bias(vectors, position_vectors)
        return self.dropout_layer(vectors, training=training)

    def _check_shape(self, shape: Shape) -> None:
        if len(shape) != 2:
            raise ValueError(
                f"`inputs` must be ids (batch, length). Received: shape {tuple(shape)}"
            )
        length, limit = shape[1], self.kind.limit
        if isinstance(length, int) and limit is not None and length > limit:
            raise ValueError(
                f"Sequences must not be longer than the {self.positions} positions, `max_length`. "
                f"Received: length={length}, max_length={limit}"
            )

    def compute_output_spec(
        self,
        inputs: Tensor,
        table: int = 0,
        reverse: bool = False,
        training: bool | None = None,
        segments: Tensor = None,
    ) -> keras.KerasTensor:
        if not reverse and segments is None:
            self._check_shape(inputs.shape)
        return self.token_embedding.compute_output_spec(inputs, reverse=reverse)

    def compute_output_shape(self, inputs_shape: Shape, reverse: bool = False) -> Shape:
        return self.token_embedding.compute_output_shape(inputs_shape, reverse)

"""Token embeddings with positions."""

import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.argument_checks import KeepsArguments, known_values
from keras_transformer.errors import refuse
from keras_transformer.layers.composite_layer import (
    CompositeLayer,
    RematerializedLayer,
    part_seeds,
)
from keras_transformer.layers.dense import Dropout, add_bias, rounded_straight_through, times_matrix
from keras_transformer.layers.positions import positions_class
from keras_transformer.types import Shape, Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(KeepsArguments, RematerializedLayer, keras.layers.ReversibleEmbedding):
    """Embeds tokens or, if called with `reverse=True`, computes logits over the vocabulary.

    By default, both use the same matrix. Matrices are initialized from a normal distribution with
    standard deviation `hidden_dim ** -0.5`, so embeddings scaled by `sqrt(hidden_dim)` and logits
    of unit-variance vectors both have unit variance.

    The layer extends Keras's reversible embedding and supports its quantization and LoRA. Under a
    mixed policy, the gradients for a row are summed in the dtype of the weights. If
    `rounds_to_int8` is set, every call rounds the matrices: see `rounded_straight_through`.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.
        tie_weights: whether the logits use the transposed embedding matrix; if False, they use a
            separate matrix, `reverse_matrix`.
        use_logits_bias: whether a bias is added to the logits.
        embeddings_regularizer: regularizer for the embedding matrix, or None.
        embeddings_constraint: constraint for the embedding matrix, or None.
        **kwargs: arguments of `keras.layers.Layer`: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: ids (batch, length) of any real dtype; with `reverse`, vectors
            (batch, length, hidden_dim).
        reverse: whether to compute logits.

    Returns:
        Unscaled vectors (batch, length, hidden_dim); with `reverse`, float32 logits
        (batch, length, vocabulary_size). The product is computed in the layer's compute dtype.

    Raises:
        ValueError: a size is not a positive integer, `tie_weights` or `use_logits_bias` is not a
            boolean, or an id is not a whole number or is outside the vocabulary. Ids are checked
            only if their values are known, that is, outside of compiled functions.

    Example:
        >>> import numpy as np
        >>> layer = TokenEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> tuple(layer(layer(np.array([[1, 2, 3]])), reverse=True).shape)
        (1, 3, 10)

    Reference: Vaswani et al. (2017), section 3.4; Press and Wolf (2017).
    """

    rounds_to_int8 = False

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        *,
        tie_weights: bool = True,
        use_logits_bias: bool = False,
        embeddings_regularizer: Any = None,
        embeddings_constraint: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            self.vocabulary_size,
            self.hidden_dim,
            tie_weights=tie_weights,
            embeddings_initializer=keras.initializers.RandomNormal(stddev=hidden_dim**-0.5),
            embeddings_regularizer=self.embeddings_regularizer,
            embeddings_constraint=self.embeddings_constraint,
            **kwargs,
        )
        self.supports_masking = True

    def build(self, inputs_shape: Shape | None = None) -> None:
        super().build(inputs_shape)
        self.logits_bias = None
        if self.use_logits_bias:
            self.logits_bias = self.add_weight(
                shape=(self.vocabulary_size,), initializer="zeros", name="logits_bias"
            )

    def add_weight(self, *args: Any, name: str | None = None, **options: Any) -> Any:
        """Same as in `keras.layers.Layer`, but weights keep their dtype when read; see `call`."""
        name = _NAMES.get(str(name), name)
        return super().add_weight(*args, name=name, **{**options, "autocast": False})

    @property
    def matrix(self) -> Any:
        """The embedding matrix (vocabulary_size, hidden_dim)."""
        return self.embeddings

    @property
    def reverse_matrix(self) -> Any:
        """The separate matrix for the logits (hidden_dim, vocabulary_size)."""
        return self.reverse_embeddings

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if reverse:
            return self.logits(inputs, self.output_matrix())
        ids = as_ids(inputs, self.vocabulary_size)
        # Cast the rows, not the matrix, so that a row's gradients are summed in the dtype of the
        # weights. In bfloat16, the sum for a frequent token would stop growing at a few hundred.
        return ops.cast(self._rounded(self._vectors(ids), axis=-1), self.compute_dtype)

    def _vectors(self, ids: Tensor) -> Tensor:
        """Return the vectors of tokens, with adapters, in the dtype of the weights."""
        rows = self.rows(ids)
        if self.lora_enabled:
            change = ops.matmul(
                ops.take(self.lora_embeddings_a, ids, axis=0), self.lora_embeddings_b
            )
            rows = rows + (self.lora_alpha / self.lora_rank) * change
        return rows

    def _rounded(self, matrix: Tensor, axis: int) -> Tensor:
        return rounded_straight_through(matrix, axis) if self.rounds_to_int8 else matrix

    def rows(self, ids: Tensor) -> Tensor:
        """Return rows of the embedding matrix in its dtype. Exports may replace this method."""
        return ops.take(self._embeddings, ids, axis=0)

    def enable_lora(
        self,
        rank: int,
        lora_alpha: float | None = None,
        a_initializer: Any = "zeros",
        b_initializer: Any = None,
    ) -> None:
        """Same as in `keras.layers.Embedding`, but the token rows, not the basis, start at 0.

        Therefore, a token that never occurs in training keeps its embedding. If `b_initializer` is
        None, the basis uses the initializer of the matrix.
        """
        b_initializer = self.embeddings_initializer if b_initializer is None else b_initializer
        super().enable_lora(rank, lora_alpha, a_initializer, b_initializer)

    def _int8_call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        return self._quantized(super()._int8_call, inputs, reverse)

    def _int4_call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        return self._quantized(super()._int4_call, inputs, reverse)

    def _quantized(self, call: Any, inputs: Tensor, reverse: bool) -> Tensor:
        """Return the result of a quantized Keras call, in the dtypes of the unquantized call."""
        if not reverse:
            return ops.cast(call(as_ids(inputs, self.vocabulary_size)), self.compute_dtype)
        return self._biased(call(ops.cast(inputs, self.compute_dtype), reverse=True))

    def compute_output_spec(self, inputs: Tensor, reverse: bool = False) -> keras.KerasTensor:
        shape = self.compute_output_shape(inputs.shape, reverse)
        return keras.KerasTensor(shape, "float32" if reverse else self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, reverse: bool = False) -> Shape:
        if reverse:
            return (*inputs_shape[:-1], self.vocabulary_size)
        return (*inputs_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        return {name: value for name, value in config.items() if name not in _FIXED}

    @property
    def variable_serialization_spec(self) -> dict[str | None, list[str]]:
        """Keras's lists of saved weights by quantization mode, including the bias."""
        spec = super().variable_serialization_spec
        if not self.use_logits_bias:
            return spec
        return {mode: [*names, "logits_bias"] for mode, names in spec.items()}

    def quantize(self, mode: str | None = None, type_check: bool = True, **config: Any) -> None:
        """Same as in `keras.layers.ReversibleEmbedding`, using Keras's own computation."""
        super().quantize(mode, type_check=False, **config)

    def output_matrix(self, tokens: Tensor | None = None) -> Tensor | None:
        """Return the matrix (hidden_dim, vocabulary_size) for `logits` in the compute dtype.

        Args:
            tokens: int32 (n,), the tokens whose columns are returned, or None for all tokens.

        Returns:
            The matrix, or None if it is quantized, because each product then also needs scales.

        Raises:
            ValueError: `tokens` are given, but the matrix is quantized.
        """
        if self.quantization_mode is not None:
            if tokens is not None:
                raise ValueError(
                    "The logits of only some tokens need weights that are not quantized. "
                    f"Received: quantization_mode={self.quantization_mode!r}"
                )
            return None
        if self.tie_weights:
            matrix = self.embeddings if tokens is None else self._vectors(tokens)
            matrix = self._rounded(matrix, axis=-1)
            return ops.transpose(ops.cast(matrix, self.compute_dtype))
        matrix = self.reverse_embeddings
        if tokens is not None:
            matrix = ops.take(matrix, tokens, axis=1)
        return ops.cast(self._rounded(matrix, axis=0), self.compute_dtype)

    def logits(self, inputs: Tensor, output_matrix: Tensor, tokens: Tensor | None = None) -> Tensor:
        """Same as a call with `reverse=True`, but using the matrix from `output_matrix(tokens)`."""
        inputs = ops.cast(inputs, self.compute_dtype)
        return self._biased(times_matrix(inputs, output_matrix), tokens)

    def _biased(self, logits: Tensor, tokens: Tensor | None = None) -> Tensor:
        logits = ops.cast(logits, "float32")
        if self.logits_bias is None:
            return logits
        bias = ops.cast(self.logits_bias, "float32")
        return logits + (bias if tokens is None else ops.take(bias, tokens))


class _WordDropout(RematerializedLayer, keras.layers.Dropout):
    """Keras's dropout, used with a `noise_shape` that drops entire vectors."""


# Our names for Keras's weights, and the arguments of Keras's layer that are fixed or renamed here.
_NAMES = {"embeddings": "matrix", "reverse_embeddings": "reverse_matrix"}
_FIXED = (
    "input_dim",
    "output_dim",
    "embeddings_initializer",
    "activity_regularizer",
    "mask_zero",
    "reverse_dtype",
    "logit_soft_cap",
)


def as_ids(inputs: Tensor, vocabulary_size: int) -> Tensor:
    """Cast ids to int32 as in `keras.layers.Embedding`.

    Args:
        inputs: tensor of any shape and any real dtype.
        vocabulary_size: number of tokens.

    Returns:
        int32 tensor.

    Raises:
        ValueError: an id is not a whole number or is outside the vocabulary. Ids are checked only
            if their values are known. A compiled function treats invalid ids like Keras's layer.
    """
    values = known_values(inputs)
    if values is not None and values.size:
        least, most = values.min(), values.max()
        if not (least >= 0 and most < vocabulary_size):  # NaN fails too
            wrong = most if least >= 0 else least
            refuse(
                "inputs",
                f"be ids from 0 to {vocabulary_size - 1}, the vocabulary's",
                id=wrong.item(),
            )
        if values.dtype.kind not in "iub" and (values % 1).any():
            refuse(
                "inputs", "be ids, which are whole numbers", id=values[values % 1 != 0][0].item()
            )
    return ops.cast(inputs, "int32")


_MOST_TABLES = 1000


@keras.saving.register_keras_serializable(package="keras_transformer")
class PositionalEmbedding(CompositeLayer):
    """Embeds tokens, scales them by `sqrt(hidden_dim)`, adds positions and applies dropout.

    The layer contains a `TokenEmbedding`. If called with `reverse=True`, it computes logits over
    the vocabulary, so one layer can serve a source, target and output that share a vocabulary.

    Args:
        vocabulary_size: number of tokens.
        hidden_dim: size of a token's vector.
        positions: type of positions: "sinusoidal" (for any length), "learned", "words", "rotary",
            or your own (see `keras_transformer.layers.positions.register_positions`). "rotary" adds
            nothing here; instead, attention applies the positions through its `positions` argument.
            "words" adds the sinusoids of a token's word number and a learned vector for its place
            in the word. If each source word corresponds to one target token, as in
            parsing, matching words have the same number on both sides.
        max_length: number of learned positions.
        num_tables: number of learned tables, such as one for the source and one for the target.
        word_starts: with "words", the ids that start a word; otherwise None.
        tie_weights: whether the logits use the embedding matrix instead of a separate matrix.
        use_logits_bias: whether a bias is added to the logits.
        dropout: dropout rate for the sums of tokens and positions.
        word_dropout: rate at which token vectors are dropped entirely in training, leaving only the
            position; the remaining vectors are scaled up, as in `keras.layers.Dropout`.
        mask_id: padding id, such as 0. The output carries a Keras mask of all other ids, as with
            `keras.layers.Embedding(mask_zero=True)`. None means no mask.
        zero_id: id whose embedding is a zero vector regardless of its row in the matrix, such as
            the first input of Marian's decoders, or None.
        embeddings_regularizer: regularizer for the embedding matrix, or None.
        embeddings_constraint: constraint for the embedding matrix, or None.
        seed: integer from which both dropout seeds are derived; if None, Keras chooses them.
        **kwargs: arguments of `keras.layers.Layer`: `name`, `dtype`, `trainable`.

    Call arguments:
        inputs: ids (batch, length) of any real dtype; with `reverse`, vectors
            (batch, length, hidden_dim).
        table: zero-based index of the learned table to add.
        reverse: whether to compute logits.
        training: whether dropout is active.
        segments: int32 tensor (batch, length), for rows with several sequences: the zero-based
            index of each position's sequence. Positions restart in each sequence, and a row can be
            longer than `max_length`. None means that each row is a single sequence.

    Returns:
        Tensor (batch, length, hidden_dim); with `reverse`, float32 logits
        (batch, length, vocabulary_size).

    Raises:
        ValueError: an argument is invalid, ids have the wrong rank, a sequence is longer than
            `max_length` with learned positions, or an id is not a whole number or is outside the
            vocabulary. Ids are checked only if their values are known, that is, outside of
            compiled functions.

    Example:
        >>> import numpy as np
        >>> layer = PositionalEmbedding(vocabulary_size=10, hidden_dim=4)
        >>> tuple(layer(np.array([[1, 2, 3]])).shape)
        (1, 3, 4)

    Reference: Vaswani et al. (2017), sections 3.4, 3.5 and 5.4; Table 3, row E. Hierarchical
        positions: Bai et al., "Segatron: Segment-Aware Transformer for Language Modeling and
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
        # Ids passed as floats would lose precision in the compute dtype.
        super().__init__(**{**kwargs, "autocast": False})
        if num_tables > _MOST_TABLES:
            refuse("num_tables", f"be at most {_MOST_TABLES}", num_tables)
        for name, token in (("mask_id", mask_id), ("zero_id", zero_id)):
            if token is not None and token >= vocabulary_size:
                rule = "be less than `vocabulary_size`"
                refuse(name, rule, token, vocabulary_size=vocabulary_size)
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
        self.word_dropout_layer = _WordDropout(
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
        """Add a weight and also set it as an attribute, as SavedModels require."""
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
        """Return the initial counters for `step`: a nest of (batch, beams) tensors (or empty)."""
        return self.kind.start_cache((batch_size, beam_size))

    def step(self, ids: Tensor, index: Tensor, cache: Any, table: int = 0) -> tuple[Tensor, Any]:
        """Embed the tokens at one position.

        Args:
            ids: integer tensor (batch, beams).
            index: scalar integer tensor, the zero-based position.
            cache: cache from `start_cache` or from the previous step.
            table: zero-based index of the learned table to add.

        Returns:
            vectors: tensor (batch, beams, hidden_dim).
            cache: the given cache, updated after this position.
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
            refuse("inputs", "be ids (batch, length)", shape=tuple(shape))
        length, limit = shape[1], self.kind.limit
        if isinstance(length, int) and limit is not None and length > limit:
            rule = f"be no longer than the {self.positions} positions, `max_length`"
            refuse("inputs", rule, length=length, max_length=limit)

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

"""Types of positions: how a model represents the position of a token.

There are two categories. Additive types subclass `Positions`, and a `PositionalEmbedding` adds
their vectors to the tokens. Types that subclass `PositionsInAttention` add nothing to the tokens.
Instead, each self-attention applies them to its queries and keys or to the logits. Each type is a
single class that defines the weights and their number, the required arguments, the maximum length,
and the computation for full sequences and for one decoding step.
"""

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import keras
import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_non_negative_int, check_one_of
from keras_transformer.errors import refuse
from keras_transformer.layers.attention_masks import places_in_segments
from keras_transformer.layers.dense import add_bias, precise_dtype
from keras_transformer.types import Tensor

# Number of places in a word with a separate vector. Later places share the last vector.
NUM_PLACES = 32


def sinusoidal_positions(positions: Tensor, hidden_dim: int) -> Tensor:
    """Interleave sines and cosines: PE(pos, 2i) = sin, PE(pos, 2i+1) = cos of pos / 10000^(2i/d).

    Args:
        positions: integer tensor of any shape.
        hidden_dim: size of a position's vector.

    Returns:
        float32 tensor (..., hidden_dim).

    Reference: Vaswani et al. (2017), section 3.5.
    """
    pairs = (hidden_dim + 1) // 2
    angles = _angles(positions, 10000.0 ** (-2.0 * np.arange(pairs) / hidden_dim))  # (..., pairs)
    waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)  # (..., pairs, 2)
    return _interleaved(waves, hidden_dim)


def _interleaved(waves: Tensor, hidden_dim: int) -> Tensor:
    """Flatten pairs of sines and cosines (..., pairs, 2) to (..., hidden_dim)."""
    *shape, pairs, _ = ops.shape(waves)
    return ops.reshape(waves, (*shape, 2 * pairs))[..., :hidden_dim]


def _angles(positions: Tensor, frequencies: np.ndarray) -> Tensor:
    """Multiply positions (...) by frequencies (pairs,) to get float32 angles (..., pairs)."""
    frequencies = ops.convert_to_tensor(frequencies, dtype="float32")
    return ops.expand_dims(ops.cast(positions, "float32"), -1) * frequencies


@dataclasses.dataclass(kw_only=True, eq=False)
class Positions:
    """Base class for all types of positions, with defaults for token-independent vectors.

    A subclass implements `at`, or both `vectors` and `step`.

    Args:
        vocabulary_size, hidden_dim, max_length, num_tables, word_starts: as in
            `PositionalEmbedding`.

    Attributes:
        name: name of the type, set by `register_positions`.
        reads_tokens: whether the vectors also depend on the tokens.
        needs_separate_vocabularies: whether source and target need separate vocabularies.
        uses_max_length: whether `max_length` limits the positions.

    Raises:
        ValueError: `word_starts` is given, but this type does not use it.
    """

    name: ClassVar[str] = ""
    reads_tokens: ClassVar[bool] = False
    needs_separate_vocabularies: ClassVar[bool] = False
    uses_max_length: ClassVar[bool] = False

    vocabulary_size: int
    hidden_dim: int
    max_length: int
    num_tables: int
    word_starts: Sequence[int] | None

    def __post_init__(self) -> None:
        self.check_word_starts(self.word_starts)

    @classmethod
    def check_word_starts(cls, word_starts: Sequence[int] | None) -> None:
        """Check that `word_starts` is given if and only if this type needs it."""
        if word_starts is not None:
            _refuse_word_starts(cls.name, word_starts)

    @classmethod
    def check_heads(cls, num_heads: int, key_dim: int) -> None:
        """Reject attention head sizes that this type does not support."""

    @classmethod
    def check_sides(
        cls,
        source_vocabulary_size: int | None,
        source_word_starts: Sequence[int] | None,
        target_word_starts: Sequence[int] | None,
    ) -> None:
        """Reject arguments of `build_transformer` that this type does not support."""
        if source_word_starts is not None or target_word_starts is not None:
            raise ValueError(
                '`source_word_starts` and `target_word_starts` are only for `positions="words"`. '
                f"Received: positions={cls.name!r}, source_word_starts={source_word_starts}, "
                f"target_word_starts={target_word_starts}"
            )

    @classmethod
    def tokenizer_options(cls, source_tokenizer: Any, tokenizer: Any) -> dict[str, Any]:
        """Return arguments of `build_transformer` that this type derives from the tokenizers."""
        return {}

    @classmethod
    def count_weights(cls, hidden_dim: int, max_length: int, num_tables: int) -> int:
        """Return the number of weights that `build` creates."""
        return 0

    @property
    def limit(self) -> int | None:
        """Maximum length of a sequence, or None if it is unlimited."""
        return self.max_length if self.uses_max_length else None

    def build(self, layer: keras.layers.Layer) -> None:
        """Create the position weights as weights of a layer."""

    def at(self, positions: Tensor, table: int) -> Tensor:
        """Return vectors (..., hidden_dim) for zero-based integer positions (...)."""
        raise NotImplementedError(
            f"`{type(self).__name__}` must implement `at`, or `vectors`, `step` and, for packed "
            "rows, `packed_vectors`"
        )

    def vectors(self, ids: Tensor, table: int) -> Tensor | None:
        """Return the vectors for full sequences.

        Args:
            ids: integer tensor (batch, length).
            table: index of the learned table to use, less than `num_tables`.

        Returns:
            Float tensor (length, hidden_dim) or (batch, length, hidden_dim); None adds nothing.
        """
        return self.at(ops.arange(ops.shape(ids)[1]), table)

    def packed_vectors(self, ids: Tensor, segments: Tensor, table: int) -> Tensor | None:
        """Return the vectors for rows with several sequences. Positions restart in each sequence.

        Args:
            ids: integer tensor (batch, length).
            segments: int32 tensor (batch, length); see `layers.attention_masks`.
            table: as in `vectors`.

        Returns:
            Float tensor (batch, length, hidden_dim), or None to add nothing.
        """
        length = ops.shape(ids)[1]
        if self.limit is not None:
            length = (min if isinstance(length, int) else ops.minimum)(length, self.limit)
        vectors = self.at(ops.arange(length), table)
        # The padding after the last sequence may be longer than any sequence.
        places = ops.minimum(places_in_segments(segments), length - 1)
        return ops.take(vectors, places, axis=0)

    def start_cache(self, shape: tuple[Any, ...]) -> Any:
        """Return the initial cache for `step`: a nest of tensors of `shape`."""
        return ()

    def step(self, ids: Tensor, index: Tensor, cache: Any, table: int) -> tuple[Tensor | None, Any]:
        """Return the vectors for the tokens at one position.

        Args:
            ids: integer tensor (batch, beams).
            index: scalar integer tensor, the zero-based position.
            cache: cache from `start_cache` or from the previous step.
            table: index of the learned table to use.

        Returns:
            vectors: tensor (1, hidden_dim) or (batch, beams, hidden_dim), or None to add nothing.
            cache: the given cache, updated after this position.
        """
        return self.at(ops.reshape(index, (1,)), table), cache


class PositionsInAttention(Positions):
    """Base class for types that act inside self-attention and add nothing to the tokens.

    Positions are counted from 0 at the start of a row, including padding. A row can contain several
    sequences, so attention must depend only on the distances between positions. Attention to a
    memory does not use positions. A subclass implements `transform`, `bias`, or both.
    """

    @classmethod
    def transform(cls, vectors: Tensor, positions: Tensor) -> Tensor:
        """Apply positions to queries or keys.

        Args:
            vectors: tensor (..., length, key_dim) of any float dtype.
            positions: integer tensor (length,), or (1,) if all vectors share a position.

        Returns:
            Tensor with the shape and dtype of `vectors`.
        """
        return vectors

    @classmethod
    def bias(cls, num_heads: int, targets: Tensor, sources: Tensor) -> Tensor | None:
        """Return the bias to add to the attention logits.

        Args:
            num_heads: number of heads.
            targets, sources: integer tensors (target,) and (source,), positions of queries and
                keys. The bias must depend only on their distances, as they can start anywhere.

        Returns:
            float32 tensor (num_heads, target, source), or None to add nothing.
        """
        return None

    def vectors(self, ids: Tensor, table: int) -> None:
        return None

    def packed_vectors(self, ids: Tensor, segments: Tensor, table: int) -> None:
        return None

    def step(self, ids: Tensor, index: Tensor, cache: Any, table: int) -> tuple[None, Any]:
        return None, cache


POSITIONS: dict[str, type[Positions]] = {}


def register_positions(name: str) -> Callable[[type[Positions]], type[Positions]]:
    """Decorator that registers a subclass of `Positions`, of either category, under a name.

    A program that loads a model with custom positions must register them first.

    Args:
        name: value of `positions` in layers and in model-building functions.

    Returns:
        A class decorator.

    Raises:
        ValueError: the name is reserved for one of this package's types.

    Example:
        >>> @register_positions("my_positions")
        ... class MyPositions(Positions):
        ...     def at(self, positions, table):
        ...         return ops.zeros((*ops.shape(positions), self.hidden_dim))
        >>> positions_class("my_positions").name
        'my_positions'
        >>> del POSITIONS["my_positions"]
    """

    if name in POSITIONS and POSITIONS[name].__module__ == __name__:
        refuse("name", "not be one of this package's kinds", name)

    def register(kind: type[Positions]) -> type[Positions]:
        kind.name = name
        POSITIONS[name] = kind
        return kind

    return register


def positions_class(name: str) -> type[Positions]:
    """Return the type of positions with this name.

    Raises:
        ValueError: the name is unknown.
    """
    check_one_of("positions", name, POSITIONS)
    return POSITIONS[name]


def positions_in_attention(name: str | None) -> type[PositionsInAttention] | None:
    """Return the attention-based type of positions with this name, or None if `name` is None.

    Raises:
        ValueError: the name is unknown, or the type is additive.
    """
    if name is None:
        return None
    kind = positions_class(name)
    if not issubclass(kind, PositionsInAttention):
        rule = "be None or a kind that acts inside attention, such as 'rotary'"
        refuse("positions", rule, name)
    return kind


@register_positions("sinusoidal")
class SinusoidalPositions(Positions):
    """Sines and cosines, computed in float32, for sequences of any length."""

    def at(self, positions: Tensor, table: int) -> Tensor:
        return sinusoidal_positions(positions, self.hidden_dim)


@register_positions("sinusoidal_t2t")
class Tensor2TensorPositions(Positions):
    """Sines and cosines with frequencies down to exactly 1/10000, as in tensor2tensor and Marian.

    The frequency of pair i of n is 10000^(-i / (n - 1)); the paper divides by n.

    Reference: `get_timing_signal_1d` in tensor2tensor.
    """

    def at(self, positions: Tensor, table: int) -> Tensor:
        pairs = (self.hidden_dim + 1) // 2
        angles = _angles(positions, 10000.0 ** (-np.arange(pairs) / max(pairs - 1, 1)))
        waves = ops.stack([ops.sin(angles), ops.cos(angles)], axis=-1)
        return _interleaved(waves, self.hidden_dim)


@register_positions("learned")
class LearnedPositions(Positions):
    """A learned vector for each position up to `max_length`, in each of `num_tables` tables."""

    uses_max_length = True

    @classmethod
    def count_weights(cls, hidden_dim: int, max_length: int, num_tables: int) -> int:
        return num_tables * max_length * hidden_dim

    def build(self, layer: keras.layers.Layer) -> None:
        self.tables = [
            _add_table(layer, f"positions_{number}", (self.max_length, self.hidden_dim))
            for number in range(self.num_tables)
        ]

    def at(self, positions: Tensor, table: int) -> Tensor:
        return ops.take(self.tables[table], positions, axis=0)


@register_positions("rotary")
class RotaryPositions(PositionsInAttention):
    """Rotates queries and keys by angles that grow with the position, for any length.

    The product of a query and a key then depends only on their distance, not on their absolute
    positions. A head's vector has two halves: components i and i + key_dim / 2 are the coordinates
    of a point that is rotated by position / 10000^(2i / key_dim). KerasHub's `RotaryEmbedding` and
    Hugging Face's Llama use the same convention. The paper instead pairs neighboring components,
    which differs only in the order of the components. Angles and products are computed in float32.

    Reference: Su et al., "RoFormer: Enhanced Transformer with Rotary Position Embedding", 2021.
    """

    max_wavelength: ClassVar[float] = 10000.0

    @classmethod
    def check_heads(cls, num_heads: int, key_dim: int) -> None:
        if key_dim % 2:
            refuse("key_dim", f'be even with `positions="{cls.name}"`', key_dim)

    @classmethod
    def transform(cls, vectors: Tensor, positions: Tensor) -> Tensor:
        dim = vectors.shape[-1]
        angles = _angles(positions, cls.max_wavelength ** (-2.0 * np.arange(dim // 2) / dim))
        dtype = precise_dtype(vectors)
        cosines, sines = ops.cast(ops.cos(angles), dtype), ops.cast(ops.sin(angles), dtype)
        first, second = ops.split(ops.cast(vectors, dtype), 2, axis=-1)  # (..., length, pairs)
        turned = [first * cosines - second * sines, second * cosines + first * sines]
        return ops.cast(ops.concatenate(turned, axis=-1), vectors.dtype)


class WordPositions(NamedTuple):
    """Positions of tokens in words, as two int32 tensors of the same shape.

    Args:
        words: one-based number of the token's word; 0 before the first word.
        places: zero-based place of the token in its word.
    """

    words: Tensor
    places: Tensor


class WordCounter:
    """Counts words in full sequences of ids or token by token.

    Args:
        vocabulary_size: number of tokens.
        word_starts: ids that start a word, each less than `vocabulary_size`.

    Raises:
        ValueError: `word_starts` is empty, or an id is not in the vocabulary.

    Example:
        >>> counter = WordCounter(10, word_starts=[5, 6])
        >>> positions = counter.positions(ops.convert_to_tensor([[5, 9, 9, 6, 2]]))
        >>> print(*(ops.convert_to_numpy(numbers)[0] for numbers in positions))
        [1 1 1 2 2] [0 1 2 0 1]
    """

    def __init__(self, vocabulary_size: int, word_starts: Sequence[int]) -> None:
        for token in word_starts:
            check_non_negative_int("word_starts", token)
        if not len(word_starts) or max(word_starts) >= vocabulary_size:
            rule = "be one or more ids less than `vocabulary_size`"
            refuse("word_starts", rule, list(word_starts), vocabulary_size=vocabulary_size)
        self._vocabulary_size = vocabulary_size
        self._word_starts = list(word_starts)

    def positions(self, ids: Tensor, segments: Tensor | None = None) -> WordPositions:
        """Count the words of full sequences.

        Args:
            ids: integer tensor (batch, length).
            segments: int32 tensor (batch, length), see `layers.attention_masks`; words are counted
                separately in each segment. If None, each row is a single sequence.

        Returns:
            `WordPositions` with tensors (batch, length).
        """
        starts = self._starts(ids)
        words = ops.cumsum(starts, axis=1)  # in the row
        number = words
        if segments is not None:
            is_earlier = ops.expand_dims(segments, 2) > ops.expand_dims(segments, 1)
            earlier = ops.sum(ops.where(is_earlier, ops.expand_dims(starts, 1), 0), axis=2)
            number = words - earlier
            words = words + segments  # tokens before a segment's first word belong to no word
        is_same_word = ops.equal(ops.expand_dims(words, 2), ops.expand_dims(words, 1))
        order = ops.arange(ops.shape(ids)[1])
        is_earlier = ops.expand_dims(order, 1) > ops.expand_dims(order, 0)  # (length, length)
        places = ops.sum(ops.cast(ops.logical_and(is_same_word, is_earlier), "int32"), axis=2)
        return WordPositions(number, places)

    def start(self, shape: tuple[Any, ...]) -> WordPositions:
        """Return the positions before the first token, as tensors of `shape`."""
        return WordPositions(ops.zeros(shape, dtype="int32"), ops.full(shape, -1, dtype="int32"))

    def step(self, ids: Tensor, before: WordPositions) -> WordPositions:
        """Count the next token of each sequence.

        Args:
            ids: integer tensor of any shape.
            before: `WordPositions` of the previous tokens, with the same shape.

        Returns:
            `WordPositions` of the same shape.
        """
        starts = self._starts(ids)
        places = ops.where(starts > 0, 0, before.places + 1)
        return WordPositions(before.words + starts, places)

    @functools.cached_property
    def _is_start(self) -> np.ndarray:
        """Whether each id starts a word; created lazily, as untrusted vocabularies can be huge."""
        is_start = np.zeros(self._vocabulary_size, bool)
        is_start[self._word_starts] = True
        return is_start

    def _starts(self, ids: Tensor) -> Tensor:
        """Return 1 where a token starts a word, else 0: int32 in the shape of `ids`."""
        return ops.cast(ops.take(self._is_start, ids, axis=0), "int32")


@register_positions("words")
class PositionsInWords(Positions):
    """Sinusoids of the word number, plus a learned vector for the place in the word."""

    reads_tokens = True
    needs_separate_vocabularies = True

    def __post_init__(self) -> None:
        super().__post_init__()
        self._counter = WordCounter(self.vocabulary_size, self.word_starts or ())

    @classmethod
    def check_word_starts(cls, word_starts: Sequence[int] | None) -> None:
        if word_starts is None:
            _refuse_word_starts(cls.name, word_starts)

    @classmethod
    def check_sides(
        cls,
        source_vocabulary_size: int | None,
        source_word_starts: Sequence[int] | None,
        target_word_starts: Sequence[int] | None,
    ) -> None:
        values = {
            "source_vocabulary_size": source_vocabulary_size,
            "source_word_starts": source_word_starts,
            "target_word_starts": target_word_starts,
        }
        if any(value is None for value in values.values()):
            raise ValueError(
                f'`positions="{cls.name}"` needs all of {list(values)}. Received: {values}'
            )

    @classmethod
    def tokenizer_options(cls, source_tokenizer: Any, tokenizer: Any) -> dict[str, Any]:
        return {
            "source_word_starts": source_tokenizer.word_starts,
            "target_word_starts": tokenizer.word_starts,
        }

    @classmethod
    def count_weights(cls, hidden_dim: int, max_length: int, num_tables: int) -> int:
        return NUM_PLACES * hidden_dim

    def build(self, layer: keras.layers.Layer) -> None:
        self.places = _add_table(layer, "places", (NUM_PLACES, self.hidden_dim))

    def vectors(self, ids: Tensor, table: int) -> Tensor:
        return self._of(self._counter.positions(ids))

    def packed_vectors(self, ids: Tensor, segments: Tensor, table: int) -> Tensor:
        return self._of(self._counter.positions(ids, segments))

    def start_cache(self, shape: tuple[Any, ...]) -> WordPositions:
        return self._counter.start(shape)

    def step(
        self, ids: Tensor, index: Tensor, cache: WordPositions, table: int
    ) -> tuple[Tensor, WordPositions]:
        positions = self._counter.step(ids, cache)
        return self._of(positions), positions

    def _of(self, positions: WordPositions) -> Tensor:
        places = ops.take(self.places, ops.minimum(positions.places, NUM_PLACES - 1), axis=0)
        return add_bias(sinusoidal_positions(positions.words, self.hidden_dim), places)


def _refuse_word_starts(name: str, word_starts: Sequence[int] | None) -> None:
    rule = 'be given with `positions="words"`, and only then'
    refuse("word_starts", rule, word_starts, positions=name)


def _add_table(layer: keras.layers.Layer, name: str, shape: tuple[int, int]) -> Any:
    initializer = keras.initializers.RandomNormal(stddev=shape[1] ** -0.5)
    # Rows are read in the dtype of the weights so that a row's gradients are summed in that dtype.
    return layer.add_weight(shape=shape, initializer=initializer, autocast=False, name=name)

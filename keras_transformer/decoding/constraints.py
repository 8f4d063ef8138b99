"""Constraints on what a search may produce.

A constraint is a callable `(ids, index) -> bool tensor`. The result broadcasts to
(batch, beams, vocabulary) and is True where a token may come next. `ids` is int32
(batch, beams, length), filled before position `index`, an int32 scalar. Like the searches, it uses
core operations only.

A method `of_sentences(rows)` returns the constraint for some sentences of the batch, int32 (n,). It
allows finished sentences to leave a search early.

Axes in the shape comments:
    batch        sentences
    beams        hypotheses of a sentence
    length       output positions
    vocabulary   logits
"""

from collections.abc import Callable, Sequence

from keras import ops

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor

Constraint = Callable[[Tensor, Tensor], Tensor]


def allowed_by(
    constraints: Sequence[Constraint], ids: Tensor, index: Tensor, is_allowed: Tensor
) -> Tensor:
    """The tokens that all constraints allow.

    If the constraints together allow none, the later ones yield.

    Args:
        constraints: sequence of constraints, the strongest first.
        ids, index: arguments of the constraints.
        is_allowed: bool tensor that broadcasts to (batch, beams, vocabulary), True where a token is
            allowed without the constraints.

    Returns:
        Bool tensor of the same kind, with a True in each row where `is_allowed` has one.
    """
    for constraint in constraints:
        both = ops.logical_and(is_allowed, constraint(ids, index))
        is_allowed = ops.where(ops.any(both, axis=-1, keepdims=True), both, is_allowed)
    return is_allowed


class OfLogits:
    """A constraint for logits of some tokens alone.

    Args:
        constraint: the constraint.
        logit_tokens: int32 (logits,), the token of each logit.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> may_follow = MinimumLength(2, SpecialTokens(), vocabulary_size=9)
        >>> ops.convert_to_numpy(OfLogits(may_follow, [2, 7])(None, index=1)).tolist()
        [[[False, True]]]
    """

    def __init__(self, constraint: Constraint, logit_tokens: Tensor) -> None:
        self.constraint = constraint
        self.logit_tokens = logit_tokens

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        is_allowed = self.constraint(ids, index)
        if is_allowed.shape[-1] == 1:  # the same for every token
            return is_allowed
        return ops.take(is_allowed, self.logit_tokens, axis=-1)


class MinimumLength:
    """An output has a minimum number of tokens.

    Args:
        lengths: int or int32 (batch,), minimum number of tokens, EOS excluded.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> may_follow = MinimumLength(2, SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[True, True, False, True, True]]]
    """

    def __init__(
        self, lengths: Tensor, special_tokens: SpecialTokens, vocabulary_size: int
    ) -> None:
        self.lengths = lengths
        self.special_tokens = special_tokens
        self.vocabulary_size = vocabulary_size

    def of_sentences(self, rows: Tensor) -> "MinimumLength":
        lengths = ops.convert_to_tensor(self.lengths)
        lengths = ops.take(lengths, rows, axis=0) if len(lengths.shape) else lengths
        return MinimumLength(lengths, self.special_tokens, self.vocabulary_size)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        lengths = ops.reshape(ops.cast(self.lengths, "int32"), (-1, 1, 1))  # (batch, 1, 1)
        is_eos = ops.arange(self.vocabulary_size) == self.special_tokens.eos  # (vocabulary,)
        return ops.logical_or(index >= lengths, ops.logical_not(is_eos))  # (batch, 1, vocabulary)


class WithoutUnknown:
    """An output has no unknown token.

    Args:
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> may_follow = WithoutUnknown(SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[True, True, True, False, True]]]
    """

    def __init__(self, special_tokens: SpecialTokens, vocabulary_size: int) -> None:
        self.special_tokens = special_tokens
        self.vocabulary_size = vocabulary_size

    def of_sentences(self, rows: Tensor) -> "WithoutUnknown":
        return self

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        is_known = ops.arange(self.vocabulary_size) != self.special_tokens.unk
        return ops.reshape(is_known, (1, 1, -1))  # (1, 1, vocabulary)


class NoRepeatNgrams:
    """Each n-gram occurs at most once in an output. EOS is always allowed.

    Args:
        n: positive integer, number of tokens in an n-gram.
        vocabulary_size: number of logits.

    Raises:
        ValueError: `n` is not a positive integer.

    Example:
        >>> may_follow = NoRepeatNgrams(2, vocabulary_size=6)
        >>> ops.convert_to_numpy(may_follow([[[4, 5, 4, 0]]], index=3)).tolist()
        [[[True, True, True, True, True, False]]]

    Reference:
        Paulus et al., "A Deep Reinforced Model for Abstractive Summarization", 2017, section 2.5.
    """

    def __init__(self, n: int, vocabulary_size: int) -> None:
        check_positive_int("n", n)
        self.n = n
        self.vocabulary_size = vocabulary_size

    def of_sentences(self, rows: Tensor) -> "NoRepeatNgrams":
        return self

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        ids = ops.convert_to_tensor(ids, dtype="int32")
        batch_size, beams, length = ops.shape(ids)
        repeats = self._would_repeat(ids, index, length)  # (batch, beams, length)
        # Scattered into a flat array: one-hot rows of all positions would take `length` times the
        # memory.
        rows = ops.reshape(ops.arange(batch_size * beams), (-1, beams, 1))
        places = ops.reshape(rows * self.vocabulary_size + ids, (-1, 1))
        counts = ops.scatter(
            places,
            ops.reshape(ops.cast(repeats, "int32"), (-1,)),
            (batch_size * beams * self.vocabulary_size,),
        )
        return ops.reshape(counts == 0, (-1, beams, self.vocabulary_size))

    def _would_repeat(self, ids: Tensor, index: Tensor, length: Tensor) -> Tensor:
        """Whether the n - 1 tokens before a position are the last n - 1: (batch, beams, length)."""
        positions = ops.arange(length)
        repeats = ops.logical_and(positions >= self.n - 1, positions < index)  # (length,)
        repeats = ops.broadcast_to(repeats, ops.shape(ids))  # (batch, beams, length)
        context = self.n - 1
        shifted = ops.pad(ids, ((0, 0), (0, 0), (context, 0)), constant_values=-1)
        for distance in range(1, self.n):
            start = context - distance
            earlier = shifted[:, :, start : start + length]  # the token `distance` before each
            latest = ops.take(shifted, index + start, axis=2)  # (batch, beams), before the next
            repeats = ops.logical_and(repeats, earlier == ops.expand_dims(latest, 2))
        return repeats


class ForcedPrefix:
    """Each output begins with given tokens.

    Args:
        prefix_ids: integer tensor (batch, prefix_length), padded at the end. Padding forces
            nothing, nor do tokens that are never produced (BOS and the padding of the vocabulary).
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> may_follow = ForcedPrefix([[4, 3, 0], [0, 0, 0]], SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[False, False, False, True, False]], [[True, True, True, True, True]]]
    """

    def __init__(
        self, prefix_ids: Tensor, special_tokens: SpecialTokens, vocabulary_size: int
    ) -> None:
        self.prefix_ids = prefix_ids
        self.special_tokens = special_tokens
        self.vocabulary_size = vocabulary_size

    def of_sentences(self, rows: Tensor) -> "ForcedPrefix":
        prefix_ids = ops.take(self.prefix_ids, rows, axis=0)
        return ForcedPrefix(prefix_ids, self.special_tokens, self.vocabulary_size)

    @property
    def lengths(self) -> Tensor:
        """Number of tokens of each row, int32 (batch,)."""
        is_token = ops.convert_to_tensor(self.prefix_ids) != self.special_tokens.pad
        return ops.sum(ops.cast(is_token, "int32"), axis=1)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        pad = self.special_tokens.pad
        prefix_ids = ops.cast(self.prefix_ids, "int32")
        # A last column of padding stands for all positions after the prefixes.
        prefix_ids = ops.pad(prefix_ids, ((0, 0), (0, 1)), constant_values=pad)
        last = ops.shape(prefix_ids)[1] - 1
        tokens = ops.take(prefix_ids, ops.minimum(index, last), axis=1)  # (batch,)
        tokens = ops.reshape(tokens, (-1, 1, 1))  # (batch, 1, 1)
        is_token = ops.arange(self.vocabulary_size) == tokens  # (batch, 1, vocabulary)
        return ops.logical_or(tokens == pad, is_token)

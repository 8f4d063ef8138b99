"""Constraints on what a search may produce.

A constraint is a callable `(ids, index) -> bool tensor` that broadcasts to (batch, beams,
vocabulary), true where a token may be the next one of a hypothesis. `ids` is int32 (batch, beams,
length), filled before position `index`, an int32 scalar. It is made of core operations only, as
the searches are.

Axes in the shape comments:
    batch        sentences
    beams        hypotheses of a sentence
    length       output positions
    vocabulary   logits
"""

from keras import ops

from keras_transformer.argument_checks import check_positive_int


def allowed_by(constraints, ids, index, is_allowed):
    """Which tokens several constraints leave; where they leave none, the later one gives way.

    Args:
        constraints: sequence of constraints, those first that hold first.
        ids, index: what a constraint takes.
        is_allowed: bool tensor that broadcasts to (batch, beams, vocabulary), what is allowed
            without them.

    Returns:
        Bool tensor of that kind, in whose every row a token is allowed if `is_allowed` has one.
    """
    for constraint in constraints:
        both = ops.logical_and(is_allowed, constraint(ids, index))
        is_allowed = ops.where(ops.any(both, axis=-1, keepdims=True), both, is_allowed)
    return is_allowed


class MinimumLength:
    """An output ends only after so many tokens.

    Args:
        lengths: int or int32 (batch,), least number of tokens, EOS not counted.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> may_follow = MinimumLength(2, SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[True, True, False, True, True]]]
    """

    def __init__(self, lengths, special_tokens, vocabulary_size):
        self.lengths = lengths
        self.special_tokens = special_tokens
        self.vocabulary_size = vocabulary_size

    def __call__(self, ids, index):
        lengths = ops.reshape(ops.cast(self.lengths, "int32"), (-1, 1, 1))  # (batch, 1, 1)
        is_eos = ops.arange(self.vocabulary_size) == self.special_tokens.eos  # (vocabulary,)
        return ops.logical_or(index >= lengths, ops.logical_not(is_eos))  # (batch, 1, vocabulary)


class NoRepeatNgrams:
    """No n-gram occurs twice in an output.

    EOS stands in no hypothesis that goes on, so it is never forbidden.

    Args:
        n: number of tokens, at least 1.
        vocabulary_size: number of logits.

    Raises:
        ValueError: `n` is no positive integer.

    Example:
        >>> may_follow = NoRepeatNgrams(2, vocabulary_size=6)
        >>> ops.convert_to_numpy(may_follow([[[4, 5, 4, 0]]], index=3)).tolist()
        [[[True, True, True, True, True, False]]]

    Reference:
        Paulus et al., "A Deep Reinforced Model for Abstractive Summarization", 2017, section 2.5.
    """

    def __init__(self, n, vocabulary_size):
        check_positive_int("n", n)
        self.n = n
        self.vocabulary_size = vocabulary_size

    def __call__(self, ids, index):
        ids = ops.convert_to_tensor(ids, dtype="int32")
        batch_size, beams, length = ops.shape(ids)
        repeats = self._would_repeat(ids, index, length)  # (batch, beams, length)
        # Scattered into rows of a flat array: a one-hot of every position would take length times
        # the memory.
        rows = ops.reshape(ops.arange(batch_size * beams), (-1, beams, 1))
        places = ops.reshape(rows * self.vocabulary_size + ids, (-1, 1))
        counts = ops.scatter(
            places,
            ops.reshape(ops.cast(repeats, "int32"), (-1,)),
            (batch_size * beams * self.vocabulary_size,),
        )
        return ops.reshape(counts == 0, (-1, beams, self.vocabulary_size))

    def _would_repeat(self, ids, index, length):
        """Whether the token at a position follows the same n - 1 tokens as the next one would."""
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
    """An output begins with given tokens.

    Args:
        prefix_ids: integer tensor (batch, prefix_length), padded behind; a row of padding alone
            forces nothing. A token that is no output (BOS, padding of the vocabulary) neither.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
        >>> may_follow = ForcedPrefix([[4, 3, 0], [0, 0, 0]], SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[False, False, False, True, False]], [[True, True, True, True, True]]]
    """

    def __init__(self, prefix_ids, special_tokens, vocabulary_size):
        self.prefix_ids = prefix_ids
        self.special_tokens = special_tokens
        self.vocabulary_size = vocabulary_size

    @property
    def lengths(self):
        """Number of tokens of each row: int32 (batch,)."""
        is_token = ops.convert_to_tensor(self.prefix_ids) != self.special_tokens.pad
        return ops.sum(ops.cast(is_token, "int32"), axis=1)

    def __call__(self, ids, index):
        pad = self.special_tokens.pad
        prefix_ids = ops.cast(self.prefix_ids, "int32")
        # A column of padding stands for every position behind the prefixes.
        prefix_ids = ops.pad(prefix_ids, ((0, 0), (0, 1)), constant_values=pad)
        last = ops.shape(prefix_ids)[1] - 1
        tokens = ops.take(prefix_ids, ops.minimum(index, last), axis=1)  # (batch,)
        tokens = ops.reshape(tokens, (-1, 1, 1))  # (batch, 1, 1)
        is_token = ops.arange(self.vocabulary_size) == tokens  # (batch, 1, vocabulary)
        return ops.logical_or(tokens == pad, is_token)

"""Constraints on search outputs, including a constraint for well-formed trees.

A constraint is a callable `(ids, index) -> bool tensor`. The result broadcasts to
(batch, beams, vocabulary) and is True for tokens that may come next. `ids` is int32
(batch, beams, length), filled up to position `index` (exclusive), an int32 scalar. Like the
searches, constraints use only core operations.

An optional `of_sentences(rows)` method returns the constraint for some sentences of the batch,
int32 (n,). It allows finished sentences to leave a search early.

Axes in the shape comments:
    batch        sentences
    beams        hypotheses per sentence
    length       output positions
    vocabulary   logits

Trees are linearized depth first, as in `(S (NP XX XX )NP (VP XX )VP )S`, with tokens that open a
constituent, tokens that close a constituent, and a placeholder token for words.
"""

import copy
import dataclasses
from collections.abc import Callable, Sequence
from typing import Self

import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.decoding.sentence_loop import choose
from keras_transformer.errors import refuse
from keras_transformer.types import SpecialTokens, Tensor

Constraint = Callable[[Tensor, Tensor], Tensor]


def allowed_by(
    constraints: Sequence[Constraint], ids: Tensor, index: Tensor, is_allowed: Tensor
) -> Tensor:
    """Return a mask of the tokens that all constraints allow.

    If no token satisfies all constraints, conflicting later constraints are ignored.

    Args:
        constraints: sequence of constraints, strongest first.
        ids, index: arguments of the constraints.
        is_allowed: bool tensor that broadcasts to (batch, beams, vocabulary), True for tokens that
            are allowed without the constraints.

    Returns:
        Bool tensor like `is_allowed`; each row with a True in `is_allowed` keeps at least one True.
    """
    for constraint in constraints:
        both = ops.logical_and(is_allowed, constraint(ids, index))
        is_allowed = ops.where(ops.any(both, axis=-1, keepdims=True), both, is_allowed)
    return is_allowed


@dataclasses.dataclass(eq=False)
class OfLogits:
    """Adapts a constraint to logits that cover only some tokens.

    Args:
        constraint: the constraint to adapt.
        logit_tokens: int32 (logits,), the token of each logit.

    Example:
        >>> from keras_transformer.types import SpecialTokens
        >>> may_follow = MinimumLength(2, SpecialTokens(), vocabulary_size=9)
        >>> ops.convert_to_numpy(OfLogits(may_follow, [2, 7])(None, index=1)).tolist()
        [[[False, True]]]
    """

    constraint: Constraint
    logit_tokens: Tensor

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        is_allowed = self.constraint(ids, index)
        if is_allowed.shape[-1] == 1:  # identical for all tokens
            return is_allowed
        return ops.take(is_allowed, self.logit_tokens, axis=-1)


class ForAllSentences:
    """Base class for constraints that are the same for all sentences."""

    def of_sentences(self, rows: Tensor) -> Self:
        return self


@dataclasses.dataclass(eq=False)
class MinimumLength:
    """Requires a minimum number of tokens in each output.

    Args:
        lengths: int or int32 (batch,), minimum number of tokens, excluding EOS.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.types import SpecialTokens
        >>> may_follow = MinimumLength(2, SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[True, True, False, True, True]]]
    """

    lengths: Tensor
    special_tokens: SpecialTokens
    vocabulary_size: int

    def of_sentences(self, rows: Tensor) -> Self:
        lengths = ops.convert_to_tensor(self.lengths)
        lengths = ops.take(lengths, rows, axis=0) if len(lengths.shape) else lengths
        return dataclasses.replace(self, lengths=lengths)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        lengths = ops.reshape(ops.cast(self.lengths, "int32"), (-1, 1, 1))  # (batch, 1, 1)
        is_eos = ops.arange(self.vocabulary_size) == self.special_tokens.eos  # (vocabulary,)
        return ops.logical_or(index >= lengths, ops.logical_not(is_eos))  # (batch, 1, vocabulary)


@dataclasses.dataclass(eq=False)
class WithoutUnknown(ForAllSentences):
    """Forbids the unknown token.

    Args:
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.types import SpecialTokens
        >>> may_follow = WithoutUnknown(SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[True, True, True, False, True]]]
    """

    special_tokens: SpecialTokens
    vocabulary_size: int

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        is_known = ops.arange(self.vocabulary_size) != self.special_tokens.unk
        return ops.reshape(is_known, (1, 1, -1))  # (1, 1, vocabulary)


@dataclasses.dataclass(eq=False)
class NoRepeatNgrams(ForAllSentences):
    """Allows each n-gram at most once per output. EOS is always allowed.

    Args:
        n: positive integer, the number of tokens in an n-gram.
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

    n: int
    vocabulary_size: int

    def __post_init__(self) -> None:
        check_positive_int("n", self.n)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        ids = ops.convert_to_tensor(ids, dtype="int32")
        repeats = self._would_repeat(ids, index, ops.shape(ids)[2])  # (batch, beams, length)
        return _all_except(ids, repeats, self.vocabulary_size)

    def _would_repeat(self, ids: Tensor, index: Tensor, length: Tensor) -> Tensor:
        """Mark positions preceded by the most recent n - 1 tokens: bool (batch, beams, length)."""
        positions = ops.arange(length)
        repeats = ops.logical_and(positions >= self.n - 1, positions < index)  # (length,)
        repeats = ops.broadcast_to(repeats, ops.shape(ids))  # (batch, beams, length)
        context = self.n - 1
        shifted = ops.pad(ids, ((0, 0), (0, 0), (context, 0)), constant_values=-1)
        for distance in range(1, self.n):
            start = context - distance
            earlier = shifted[:, :, start : start + length]  # the tokens `distance` earlier
            latest = ops.take(shifted, index + start, axis=2)  # (batch, beams), most recent
            repeats = ops.logical_and(repeats, earlier == ops.expand_dims(latest, 2))
        return repeats


def _all_except(tokens: Tensor, are_forbidden: Tensor, vocabulary_size: int) -> Tensor:
    """Return a mask (batch, beams, vocabulary) without the forbidden `tokens` (batch, beams, n)."""
    batch_size, beams, _ = ops.shape(tokens)
    # Scatter into a flat array, because one-hot rows for all tokens would need n times the memory.
    rows = ops.reshape(ops.arange(batch_size * beams), (-1, beams, 1))
    places = ops.reshape(rows * vocabulary_size + tokens, (-1, 1))
    counts = ops.scatter(
        places,
        ops.reshape(ops.cast(are_forbidden, "int32"), (-1,)),
        (batch_size * beams * vocabulary_size,),
    )
    return ops.reshape(counts == 0, (-1, beams, vocabulary_size))


LONGEST_LOOP = 8  # in tokens; an emoji takes up to 4 bytes, or 5 with a space


@dataclasses.dataclass(eq=False)
class LimitedRepeats:
    """Limits consecutive repetitions of an n-gram, to prevent endless loops.

    The limit applies to n-grams of up to `LONGEST_LOOP` tokens. Create an instance with `of`.

    Args:
        bounds: int32 (batch, 1, n): for each n-gram length n, the maximum number of consecutive
            tokens that equal the token n positions earlier.
        max_repeats: maximum number of consecutive occurrences if the source has no repetitions.
        vocabulary_size: number of logits.
        logit_tokens: int32 (logits,); see `OutputRules`.

    Example:
        >>> source_ids = np.array([[5, 6, 7], [4, 4, 4]])
        >>> may_follow = LimitedRepeats.of(2, source_ids, padding_id=0, vocabulary_size=6)
        >>> ids = [[[5, 4, 4, 0]], [[5, 4, 4, 0]]]
        >>> ops.convert_to_numpy(may_follow(ids, index=3))[..., 4].tolist()
        [[False], [True]]
    """

    bounds: Tensor
    max_repeats: int
    vocabulary_size: int
    logit_tokens: Tensor | None = None

    @classmethod
    def of(
        cls, max_repeats: int, source_ids: Tensor, padding_id: int, vocabulary_size: int
    ) -> Self:
        """Create the guard for given sources. Outputs may repeat n-grams that the source repeats.

        Args:
            max_repeats: positive integer; see the class.
            source_ids: integer tensor (batch, source_length), padded at the end.
            padding_id: id of the padding.
            vocabulary_size: number of logits.
        """
        check_positive_int("max_repeats", max_repeats)
        ids = ops.expand_dims(ops.cast(source_ids, "int32"), 1)  # (batch, 1, length)
        is_repeated = _equals_earlier(_padded(ids), ops.shape(ids)[2])  # (batch, 1, n, length)
        is_repeated = ops.logical_and(is_repeated, ops.expand_dims(ids, 2) != padding_id)
        own = ops.sum(ops.cast(is_repeated, "int32"), axis=3)  # (batch, 1, n)
        lengths = ops.arange(1, LONGEST_LOOP + 1, dtype="int32")  # (n,)
        return cls(own + max_repeats * lengths - 1, max_repeats, vocabulary_size)

    @property
    def most_forbidden(self) -> int:
        """Maximum number of distinct tokens that the guard may forbid at the same time."""
        # By the Fine and Wilf theorem, two loops of this length have the same next token.
        return 1 if self.max_repeats >= LONGEST_LOOP else LONGEST_LOOP

    def of_sentences(self, rows: Tensor) -> Self:
        return dataclasses.replace(self, bounds=ops.take(self.bounds, rows, axis=0))

    def forbidden(self, ids: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        """For each n-gram length, find the token that would repeat one and whether to forbid it.

        Returns:
            `(tokens, are_forbidden)`: int32 and bool, both (batch, beams, n).
        """
        ids = ops.convert_to_tensor(ids, dtype="int32")
        padded, length = _padded(ids), ops.shape(ids)[2]
        positions = ops.arange(length, dtype="int32")
        is_break = ops.logical_and(
            positions < index, ops.logical_not(_equals_earlier(padded, length))
        )
        last_break = ops.max(ops.where(is_break, positions, -1), axis=3)  # (batch, beams, n)
        places = index + ops.arange(LONGEST_LOOP - 1, -1, -1, dtype="int32")  # (n,), in `padded`
        tokens = ops.take(padded, places, axis=2)  # (batch, beams, n)
        are_forbidden = ops.logical_and(index - 1 - last_break >= self.bounds, tokens >= 0)
        return ops.maximum(tokens, 0), are_forbidden

    def of_logits(self, logit_tokens: Tensor) -> Self:
        """Adapt the guard to logits of only some tokens, without a mask of the full vocabulary."""
        return dataclasses.replace(self, logit_tokens=logit_tokens)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        tokens, are_forbidden = self.forbidden(ids, index)
        if self.logit_tokens is None:
            return _all_except(tokens, are_forbidden, self.vocabulary_size)
        tokens = ops.expand_dims(ops.where(are_forbidden, tokens, -1), 3)  # (batch, beams, n, 1)
        return ops.all(ops.not_equal(tokens, self.logit_tokens), axis=2)


def _padded(ids: Tensor) -> Tensor:
    """Prepend `LONGEST_LOOP` positions without a token to rows (batch, beams, length)."""
    return ops.pad(ids, ((0, 0), (0, 0), (LONGEST_LOOP, 0)), constant_values=-1)


def _equals_earlier(padded: Tensor, length: Tensor) -> Tensor:
    """Compare each token with the token 1, 2, ... positions earlier: (batch, beams, n, length)."""
    starts = range(LONGEST_LOOP - 1, -1, -1)
    earlier = ops.stack([padded[:, :, start : start + length] for start in starts], axis=2)
    return earlier == ops.expand_dims(padded[:, :, LONGEST_LOOP:], 2)


@dataclasses.dataclass(eq=False)
class ForcedPrefix:
    """Forces each output to start with given tokens.

    Args:
        prefix_ids: integer tensor (batch, prefix_length), padded at the end. Padding and tokens
            that are never produced (BOS and vocabulary padding) have no effect.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.

    Example:
        >>> from keras_transformer.types import SpecialTokens
        >>> may_follow = ForcedPrefix([[4, 3, 0], [0, 0, 0]], SpecialTokens(), vocabulary_size=5)
        >>> ops.convert_to_numpy(may_follow(None, index=1)).tolist()
        [[[False, False, False, True, False]], [[True, True, True, True, True]]]
    """

    prefix_ids: Tensor
    special_tokens: SpecialTokens
    vocabulary_size: int

    def of_sentences(self, rows: Tensor) -> Self:
        return dataclasses.replace(self, prefix_ids=ops.take(self.prefix_ids, rows, axis=0))

    @property
    def lengths(self) -> Tensor:
        """Number of tokens in each row, int32 (batch,)."""
        is_token = ops.convert_to_tensor(self.prefix_ids) != self.special_tokens.pad
        return ops.sum(ops.cast(is_token, "int32"), axis=1)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        pad = self.special_tokens.pad
        prefix_ids = ops.cast(self.prefix_ids, "int32")
        # The last column contains padding and represents all positions after the prefixes.
        prefix_ids = ops.pad(prefix_ids, ((0, 0), (0, 1)), constant_values=pad)
        last = ops.shape(prefix_ids)[1] - 1
        tokens = ops.take(prefix_ids, ops.minimum(index, last), axis=1)  # (batch,)
        tokens = ops.reshape(tokens, (-1, 1, 1))  # (batch, 1, 1)
        is_token = ops.arange(self.vocabulary_size) == tokens  # (batch, 1, vocabulary)
        return ops.logical_or(tokens == pad, is_token)


NO_LABEL = -1  # marks tokens that are not brackets of the given kind
# In the Penn Treebank sample, at most 6 constituents start at a word, with at most 4 in a unary
# chain, and only one of 49,000 positions reaches this maximum. The rest is a safety margin.
MAX_OPENINGS = 8


@dataclasses.dataclass(frozen=True)
class TreeTokens:
    """Roles of vocabulary tokens in a linearized tree.

    Args:
        opening: tuple of ints: for each id, the label index of the constituent that the token
            opens, or -1.
        closing: tuple of ints: for each id, the label index of the constituent that the token
            closes, or -1.
        leaf: id of the placeholder token for words.

    Raises:
        ValueError: the tuples differ in length, there are no opening brackets, one of them is
            never closed, a token has several roles, or `leaf` is not in the vocabulary.

    Example:
        >>> TreeTokens.of(["<pad>", "<s>", "</s>", "<unk>", "(S", ")S", "XX"])
        TreeTokens(opening=(-1, -1, -1, -1, 0, -1, -1), closing=(-1, -1, -1, -1, -1, 0, -1), leaf=6)

    Reference:
        Vinyals et al., "Grammar as a Foreign Language", 2015, section 2.2.
    """

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    leaf: int

    def __post_init__(self) -> None:
        if len(self.opening) != len(self.closing):
            lengths = [len(self.opening), len(self.closing)]
            refuse("opening", "have the same length as `closing`", lengths=lengths)
        labels = set(self.opening) - {NO_LABEL}
        unclosed = sorted(labels - set(self.closing))
        if not labels or unclosed:
            raise ValueError(
                "`opening` must have a label, and `closing` each label of `opening`. Received: "
                f"{len(labels)} labels, without a closing bracket: {unclosed}"
            )
        if not 0 <= self.leaf < len(self.opening):
            refuse("leaf", "be an id of the vocabulary", self.leaf)
        for token, roles in enumerate(zip(self.opening, self.closing, strict=True)):
            if sum(role != NO_LABEL for role in roles) + (token == self.leaf) > 1:
                raise ValueError(f"A token must have one role. Received: several of id {token}")

    @classmethod
    def of(cls, tokens: Sequence[str]) -> Self:
        """Derive the roles from token text: `(NP` opens, `)NP` closes, `XX` represents a word.

        Args:
            tokens: list of strings, ordered by id; any other string, such as a bracket without a
                label, has no role.

        Raises:
            ValueError: `XX` or brackets are missing, or an opening bracket has no closing bracket.
        """
        if "XX" not in tokens:
            raise ValueError("`tokens` must have the leaf `XX`. Received: none")
        labels = sorted({token[1:] for token in tokens if token[:1] == "(" and len(token) > 1})
        numbers = {label: number for number, label in enumerate(labels)}
        return cls(
            tuple(numbers.get(t[1:], NO_LABEL) if t[:1] == "(" else NO_LABEL for t in tokens),
            tuple(numbers.get(t[1:], NO_LABEL) if t[:1] == ")" else NO_LABEL for t in tokens),
            tokens.index("XX"),
        )


class WellFormedTree:
    """Restricts each output to one linearized tree over a given number of words, then EOS.

    A token is allowed if and only if a valid tree within the limit continues with this token. In a
    valid tree, labels of opening and closing brackets match, constituents are nonempty, the root
    stays open until the last word, and at most `max_openings` constituents start at each word,
    which also bounds unary chains. A search therefore never reaches a dead end.

    This must be the first constraint of a search, because it counts all tokens except brackets as
    words. For a sentence without words, the output is EOS. Limits below `num_leaves + 2` are too
    short for any tree; the output is then the start of a flat tree.

    Args:
        num_leaves: int32 (batch,), number of words in each sentence.
        limits: int32 (batch,), maximum number of output tokens per sentence, excluding EOS.
        tree_tokens: the `TreeTokens` of the vocabulary.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.
        max_openings: maximum number of constituents that start at each word.

    Raises:
        ValueError: `max_openings` is not a positive integer, or `vocabulary_size` is less than the
            number of tokens.

    Example:
        >>> from keras_transformer.types import SpecialTokens
        >>> tokens = TreeTokens.of(["<pad>", "<s>", "</s>", "<unk>", "(S", ")S", "XX"])
        >>> may_follow = WellFormedTree([2], [9], tokens, SpecialTokens(), vocabulary_size=7)
        >>> mask = may_follow([[[4, 6, 6, 0], [4, 6, 4, 0]]], index=3)
        >>> ops.convert_to_numpy(mask)[..., 4:].tolist()  # after (S XX XX, and after (S XX (S
        [[[False, True, False], [True, False, True]]]
    """

    def __init__(
        self,
        num_leaves: Tensor,
        limits: Tensor,
        tree_tokens: TreeTokens,
        special_tokens: SpecialTokens,
        vocabulary_size: int,
        max_openings: int = MAX_OPENINGS,
    ) -> None:
        check_positive_int("max_openings", max_openings)
        missing = vocabulary_size - len(tree_tokens.opening)
        if missing < 0:
            rule = f"be at least the number of tokens, {len(tree_tokens.opening)}"
            refuse("vocabulary_size", rule, vocabulary_size)
        self.num_leaves = num_leaves
        self.limits = limits
        self.max_openings = max_openings
        # Float32 is exact here; TensorFlow supports int32 sums and comparisons only on the CPU.
        opening, closing = (
            np.pad(np.array(labels, "float32"), (0, missing), constant_values=NO_LABEL)
            for labels in (tree_tokens.opening, tree_tokens.closing)
        )
        ids = np.arange(vocabulary_size)
        self._opening, self._closing = opening, closing
        self._steps = (opening != NO_LABEL).astype("float32") - (closing != NO_LABEL)
        self._is_leaf = ids == tree_tokens.leaf
        self._is_eos = ids == special_tokens.eos

    def of_sentences(self, rows: Tensor) -> Self:
        chosen = copy.copy(self)
        chosen.num_leaves = ops.take(self.num_leaves, rows, axis=0)
        chosen.limits = ops.take(self.limits, rows, axis=0)
        return chosen

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        ids = ops.convert_to_tensor(ids, dtype="int32")
        index = ops.cast(index, "float32")
        depth, num_out, openings, label = self._read(ids, index)  # each (batch, beams)
        num_leaves = ops.reshape(ops.cast(self.num_leaves, "float32"), (-1, 1))  # (batch, 1)
        limits = ops.reshape(ops.cast(self.limits, "float32"), (-1, 1))  # (batch, 1)
        left = num_leaves - num_out  # (batch, beams)
        # Tokens left before the limit after subtracting the remaining words and a closing bracket
        # for each open constituent.
        spare = ops.maximum(limits, num_leaves + 2) - index - left - depth  # (batch, beams)
        has_left = left > 0
        may_open = _all(has_left, openings < self.max_openings, spare >= 2)
        may_be_leaf = _all(has_left, depth > 0)
        # The root may close only after the last word.
        may_close = _all(depth > 0, openings == 0, ops.logical_or(depth > 1, left == 0))
        may_end = _all(depth == 0, left == 0)
        label = ops.where(may_close, label, NO_LABEL - 1)  # a label that no token can close
        return _any(  # (batch, beams, vocabulary)
            ops.logical_and(_column(may_open), self._opening != NO_LABEL),
            ops.logical_and(_column(may_be_leaf), self._is_leaf),
            ops.logical_and(_column(may_end), self._is_eos),
            _column(label) == self._closing,
        )

    def _read(self, ids: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the tree state before position `index`, four float32 tensors (batch, beams).

        Returns:
            depth: number of open constituents.
            num_out: number of words so far.
            openings: number of consecutive opening brackets at the end.
            label: label index of the innermost open constituent; arbitrary if none is open.
        """
        batch_size, beams, length = ops.shape(ids)
        positions = ops.cast(ops.arange(length), "float32")  # (length,)
        is_before = positions < index  # (length,)
        steps = ops.take(ops.convert_to_tensor(self._steps), ids, axis=0)
        steps = ops.where(is_before, steps, 0.0)  # (batch, beams, length), 1 or -1 at brackets
        depths = ops.cumsum(steps, axis=2)  # (batch, beams, length)
        depth = depths[:, :, -1]
        num_out = index - ops.sum(ops.abs(steps), axis=2)
        is_opening = steps > 0
        is_other = ops.logical_and(is_before, ops.logical_not(is_opening))
        openings = index - 1 - _last(is_other, positions)
        # The innermost open bracket is the last opening bracket that led to the current depth.
        is_level = ops.logical_and(is_opening, depths == ops.expand_dims(depth, 2))
        place = ops.cast(ops.maximum(_last(is_level, positions), 0.0), "int32")
        innermost = choose(ops.reshape(ids, (-1, length)), ops.reshape(place, (-1, 1)))
        label = ops.take(ops.convert_to_tensor(self._opening), innermost, axis=0)
        return depth, num_out, openings, ops.reshape(label, (batch_size, beams))


def _last(is_there: Tensor, positions: Tensor) -> Tensor:
    """Return the last position (...) where `is_there` (..., length) is True, or -1."""
    return ops.max(ops.where(is_there, positions, -1.0), axis=-1)


def _column(values: Tensor) -> Tensor:
    """Reshape `values` (batch, beams) to (batch, beams, 1) to broadcast over the vocabulary."""
    return ops.expand_dims(values, 2)


def _all(first: Tensor, *others: Tensor) -> Tensor:
    """Combine boolean tensors with a logical AND."""
    for other in others:
        first = ops.logical_and(first, other)
    return first


def _any(first: Tensor, *others: Tensor) -> Tensor:
    """Combine boolean tensors with a logical OR."""
    for other in others:
        first = ops.logical_or(first, other)
    return first

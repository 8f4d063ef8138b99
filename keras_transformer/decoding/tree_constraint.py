"""The constraint that an output is a linearized tree over a given number of words.

A tree is written depth first, as `(S (NP XX XX )NP (VP XX )VP )S`: tokens that open a constituent,
tokens that close it, and one token that stands for any word.

Axes in the shape comments: as in `decoding.constraints`.
"""

import copy
import dataclasses
from collections.abc import Sequence
from typing import Self

import numpy as np
from keras import ops

from keras_transformer.argument_checks import check_positive_int
from keras_transformer.decoding.hypothesis_arrays import choose
from keras_transformer.errors import refuse
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor

NO_LABEL = -1  # for a token that is not a bracket of that kind
# In the sample of the Penn Treebank, at most 6 constituents begin at a word (at most 4 of them a
# chain of only children), once in 49,000 places; the rest is a margin.
MAX_OPENINGS = 8


@dataclasses.dataclass(frozen=True)
class TreeTokens:
    """Roles of a vocabulary's tokens in a linearized tree.

    Args:
        opening: tuple of int, for each id the number of the label whose constituent the token
            opens, or -1.
        closing: tuple of int, for each id the number of the label whose constituent the token
            closes, or -1.
        leaf: id of the token that stands for a word.

    Raises:
        ValueError: the tuples differ in length or have no opening bracket, an opening bracket lacks
            its closing one, a token has several roles, or `leaf` is outside the vocabulary.

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
            raise ValueError(
                "`opening` and `closing` must have the same length. Received: lengths "
                f"{len(self.opening)} and {len(self.closing)}"
            )
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
        """The roles of tokens, from their text: `(NP` opens, `)NP` closes, `XX` stands for a word.

        Args:
            tokens: list of strings in the order of their ids; any other text, such as a bracket
                without a label, has no role.

        Raises:
            ValueError: `XX` or brackets are missing, or an opening bracket lacks its closing one.
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
    """An output is one linearized tree over a given number of words, then EOS.

    A token is allowed exactly if some tree within the limit continues with it: each bracket closes
    with its own label, constituents are not empty, the root is open until the last word, and at
    most `max_openings` constituents begin at a word, which also bounds chains of only children. So
    a search never reaches a dead end.

    It must be the first constraint of a search, because it counts all tokens except brackets as
    words. The output of a sentence without words is EOS. A limit below `num_leaves + 2` is too
    short for any tree: the output is then the beginning of a flat tree.

    Args:
        num_leaves: int32 (batch,), number of words of each sentence.
        limits: int32 (batch,), maximum number of output tokens of each sentence, EOS excluded.
        tree_tokens: the `TreeTokens` of the vocabulary.
        special_tokens: the `SpecialTokens` of the vocabulary.
        vocabulary_size: number of logits.
        max_openings: maximum number of constituents that begin at a word.

    Raises:
        ValueError: `max_openings` is not a positive integer, or `vocabulary_size` is less than the
            number of tokens.

    Example:
        >>> from keras_transformer.special_tokens import SpecialTokens
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
            raise ValueError(
                "`vocabulary_size` must be at least the number of tokens. Received: "
                f"vocabulary_size={vocabulary_size}, {len(tree_tokens.opening)} tokens"
            )
        self.num_leaves = num_leaves
        self.limits = limits
        self.max_openings = max_openings
        # Exact in float32; TensorFlow has sums and comparisons of int32 on the CPU only.
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
        # What the limit leaves after the remaining words and a bracket for each open constituent.
        spare = ops.maximum(limits, num_leaves + 2) - index - left - depth  # (batch, beams)
        has_left = left > 0
        may_open = _all(has_left, openings < self.max_openings, spare >= 2)
        may_be_leaf = _all(has_left, depth > 0)
        # The root closes after the last word.
        may_close = _all(depth > 0, openings == 0, ops.logical_or(depth > 1, left == 0))
        may_end = _all(depth == 0, left == 0)
        label = ops.where(may_close, label, NO_LABEL - 1)  # a label that no token closes
        return _any(  # (batch, beams, vocabulary)
            ops.logical_and(_column(may_open), self._opening != NO_LABEL),
            ops.logical_and(_column(may_be_leaf), self._is_leaf),
            ops.logical_and(_column(may_end), self._is_eos),
            _column(label) == self._closing,
        )

    def _read(self, ids: Tensor, index: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The state of the tree after the tokens before `index`, each float32 (batch, beams).

        Returns:
            depth: number of open constituents.
            num_out: number of words.
            openings: number of opening brackets since the last other token.
            label: number of the innermost open constituent's label; arbitrary if none is open.
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
        # The innermost open bracket is the last one that led to the current depth.
        is_level = ops.logical_and(is_opening, depths == ops.expand_dims(depth, 2))
        place = ops.cast(ops.maximum(_last(is_level, positions), 0.0), "int32")
        innermost = choose(ops.reshape(ids, (-1, length)), ops.reshape(place, (-1, 1)))
        label = ops.take(ops.convert_to_tensor(self._opening), innermost, axis=0)
        return depth, num_out, openings, ops.reshape(label, (batch_size, beams))


def _last(is_there: Tensor, positions: Tensor) -> Tensor:
    """The last position (...) where `is_there` (..., length) is True, or -1."""
    return ops.max(ops.where(is_there, positions, -1.0), axis=-1)


def _column(values: Tensor) -> Tensor:
    """`values` (batch, beams) as (batch, beams, 1), to broadcast over the vocabulary."""
    return ops.expand_dims(values, 2)


def _all(first: Tensor, *others: Tensor) -> Tensor:
    """Where all are True."""
    for other in others:
        first = ops.logical_and(first, other)
    return first


def _any(first: Tensor, *others: Tensor) -> Tensor:
    """Where at least one is True."""
    for other in others:
        first = ops.logical_or(first, other)
    return first

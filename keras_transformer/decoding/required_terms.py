"""Search for outputs that contain required terms.

A term has one or more forms, each a sequence of tokens. An output meets a term when it contains one
of the forms as whole words. A beam search would drop hypotheses with terms, because terms are often
less probable than what the model prefers. Hypotheses therefore compete in banks, by the number of
costly terms that they have met, and those that end within a term do not compete with others.

How much of its terms a hypothesis has met is read from left to right, the longest form first, and
stored in a `TermState`. Forms that overlap in an output count once.

Axes in the shape comments:
    batch        sentences
    beams        hypotheses per sentence
    n            tokens that may follow a hypothesis
    forms        forms of the terms of a sentence; what applies to a term is the same for its forms
    form_length  tokens of a form

Reference:
    Post and Vilar, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural
    Machine Translation", 2018; Hu et al., "Improved Lexically Constrained Decoding for Translation
    and Monolingual Rewriting", 2019.
"""

import copy
import dataclasses
from typing import NamedTuple, Self

import numpy as np
from keras import ops

from keras_transformer.argument_checks import known_values
from keras_transformer.errors import refuse
from keras_transformer.types import (
    COUNT,
    ENDS_WORD,
    FIRST_TOKEN,
    IS_GAP,
    IS_RESERVED,
    JOINS_WORD,
    MOST_MISSING,
    SIZES,
    TERM,
    Tensor,
)

NOTHING = -2  # in place of a term or token, equal to none, not even to -1
NO_LENGTH = 1 << 20
OF_ALL = ("token_flags", "gap", "eos")  # attributes of `RequiredTerms` that all sentences share


class TermState(NamedTuple):
    """How much of its terms each hypothesis has met."""

    met: Tensor  # (batch, beams, forms) how often the term of each form has been met
    width: Tensor  # (batch, beams) number of last tokens that form the start of at least one form
    is_alive: Tensor  # (batch, beams, forms) the last `width` tokens are the start of this form
    accepted: Tensor  # (batch, beams) term of the longest form in the last `width` tokens, or -1
    needed: Tensor  # (batch, beams) how many more tokens the open terms need at least


class TermExtensions(NamedTuple):
    """Hypotheses extended by one token each, (batch, beams, n)."""

    state: TermState  # (batch, beams, n, ...)
    has_met: Tensor  # (batch, beams, n, forms) whether the term of each form has been met
    missing: Tensor  # (batch, beams, n) how many tokens the form at the end lacks, or 0
    is_broken: Tensor  # (batch, beams, n) whether the token breaks a reserved form, or is stray


@dataclasses.dataclass(eq=False)
class RequiredTerms:
    """The terms that the outputs of each sentence must contain.

    Args:
        forms: int32 (batch, forms, 3 + form_length): for each form the index of its term, how often
            the output must contain the term, 1 if its tokens may occur nowhere else in the output,
            and its tokens, padded with -1. All forms of a term have the same count. A row with
            count 0 is padding.
        token_flags: int32 (vocabulary,): whether a token ends or joins a word. If any token joins
            words, one token must be the gap.
        eos: id of EOS.
    """

    forms: Tensor
    token_flags: Tensor
    eos: int

    def __post_init__(self) -> None:
        self.token_flags = ops.cast(self.token_flags, "int32")
        is_gap = ops.cast(self.token_flags >= IS_GAP, "int32")
        self.gap = ops.where(ops.any(is_gap > 0), ops.cast(ops.argmax(is_gap), "int32"), -1)
        forms = ops.cast(self.forms, "int32")
        is_form = forms[:, :, COUNT] > 0
        self.term = ops.where(is_form, forms[:, :, TERM], NOTHING)  # (batch, forms)
        self.tokens = forms[:, :, FIRST_TOKEN:]  # (batch, forms, form_length)
        # LiteRT does not support `[:, None, :, 0]`.
        self.first_tokens = ops.expand_dims(self.tokens[:, :, 0], 1)  # (batch, 1, forms)
        self.lengths = ops.sum(ops.cast(self.tokens >= 0, "int32"), axis=2)  # (batch, forms)
        self.is_reserved = forms[:, :, IS_RESERVED] > 0
        reserved = ops.where(ops.expand_dims(self.is_reserved, 2), self.tokens, -1)
        _, num_forms, length = ops.shape(reserved)
        reserved = ops.reshape(reserved, (-1, num_forms * length))
        self.reserved = ops.where(reserved >= 0, reserved, NOTHING)

        # The forms of each term have the same values.
        is_same = ops.expand_dims(self.term, 2) == ops.expand_dims(self.term, 1)
        is_same = ops.logical_and(is_same, is_form[:, None])  # (batch, forms, forms)
        self.is_same_term = ops.cast(is_same, "float32")
        counts = ops.expand_dims(forms[:, :, COUNT], 1)
        self.counts = ops.max(ops.where(is_same, counts, 0), axis=2)
        joins_word = ops.logical_and(is_form, _joins_word(self._flags(self.tokens[:, :, 0])))
        # A form that joins a word may need a gap before it.
        lengths = self.lengths + ops.cast(joins_word, "int32")
        shortest = ops.min(ops.where(is_same, lengths[:, None], NO_LENGTH), axis=2)
        self.shortest = ops.where(is_form, shortest, 0)
        self.needs_gap = ops.logical_and(joins_word, self.shortest > self.lengths)

        numbers = ops.arange(num_forms, dtype="int32")
        is_earlier = ops.expand_dims(numbers, 1) > numbers
        is_repeated = ops.any(ops.logical_and(is_same, is_earlier), axis=2)
        self.is_first = ops.logical_and(is_form, ops.logical_not(is_repeated))  # of its term
        self.total = self._num_tokens(self.counts)  # (batch,), tokens of all terms
        num_terms = ops.sum(ops.where(self.is_first, self.counts, 0), axis=1)
        most = ops.clip(ops.max(self.lengths, axis=1) - 1, 0, MOST_MISSING)
        self.num_needed = num_terms + 2 + most  # (batch,), number of hypotheses

    def of_sentences(self, rows: Tensor | None) -> Self:
        """Return the terms of some sentences of the batch."""
        if rows is None:
            return self
        own = copy.copy(self)
        for name, values in vars(self).items():
            if name not in OF_ALL:
                setattr(own, name, ops.take(values, rows, axis=0))
        return own

    def start(self, beams: int) -> TermState:
        """Return the state of hypotheses without tokens."""
        batch_size, num_forms = ops.shape(self.term)
        needs_gap = ops.any(self.needs_gap, axis=1)
        needed = self.total - ops.cast(needs_gap, "int32")  # there is a gap at the start
        return TermState(
            met=ops.zeros((batch_size, beams, num_forms), dtype="int32"),
            width=ops.zeros((batch_size, beams), dtype="int32"),
            is_alive=ops.zeros((batch_size, beams, num_forms), dtype="bool"),
            accepted=ops.full((batch_size, beams), -1, dtype="int32"),
            needed=ops.broadcast_to(ops.expand_dims(needed, 1), (batch_size, beams)),
        )

    def next_tokens(self, state: TermState, last: Tensor) -> Tensor:
        """Return the tokens that meet a term or a part of it, the gap, and EOS.

        Args:
            state: the state of the hypotheses.
            last: int32 (batch, beams), their last tokens.

        Returns:
            int32 (batch, beams, forms + 3). Missing tokens are -1.
        """
        ends_word = ops.expand_dims(_ends_word(self._flags(last)), 2)
        is_joined = ops.logical_and(ends_word, _joins_word(self._flags(self.first_tokens)))
        may_start = ops.logical_and(self.counts[:, None] > state.met, ops.logical_not(is_joined))
        starts = ops.where(may_start, self.first_tokens, -1)  # (batch, beams, forms)
        # All forms that a hypothesis is within have the same first token.
        other = ops.max(ops.where(state.is_alive, starts, -1), axis=2, keepdims=True)
        tokens = ops.where(state.is_alive, self._tokens_at(state.width), starts)
        eos = ops.full(ops.shape(other), self.eos, dtype="int32")
        gap = ops.broadcast_to(self.gap, ops.shape(other))
        tokens = ops.concatenate([tokens, other, gap, eos], axis=2)
        place = ops.arange(ops.shape(tokens)[2], dtype="int32")
        is_same = ops.expand_dims(tokens, 3) == ops.expand_dims(tokens, 2)
        is_earlier = ops.expand_dims(place, 1) > place  # (forms + 3, forms + 3)
        is_repeated = ops.any(ops.logical_and(is_same, is_earlier), axis=3)
        return ops.where(is_repeated, -1, tokens)

    def after(self, state: TermState, last: Tensor, tokens: Tensor) -> TermExtensions:
        """Extend each hypothesis by each of several tokens.

        Args:
            state: the state of the hypotheses.
            last: int32 (batch, beams), their last tokens.
            tokens: int32 (batch, beams, n), the tokens that follow, -1 for none.
        """
        flags = self._flags(tokens)
        is_gap = ops.cast(ops.logical_not(_ends_word(flags)), "int32")  # (batch, beams, n)
        ends_word = ops.expand_dims(_ends_word(self._flags(last)), 2)
        follows_gap = ops.logical_not(ops.logical_and(ends_word, _joins_word(flags)))
        width = ops.expand_dims(state.width, 2)
        counts, lengths, shortest = (
            ops.expand_dims(each, 1) for each in (self.counts, self.lengths, self.shortest)
        )  # (batch, 1, forms)
        all_needed = ops.expand_dims(self._num_tokens(counts - state.met), 2)  # (batch, beams, 1)

        def of_gap(values: Tensor) -> Tensor:
            """Choose between the values without and with a gap before the token."""
            return ops.where(follows_gap, values[:, :, 1:], values[:, :, :1])

        accepted = ops.stack([state.accepted, self._ending(state)], axis=2)  # (batch, beams, 2)
        is_accepted = self._is_of(accepted)  # (batch, beams, 2, forms)
        of_accepted = ops.max(ops.where(is_accepted, ops.expand_dims(shortest, 2), 0), axis=3)
        met = ops.expand_dims(state.met, 2) + ops.cast(is_accepted, "int32")
        is_open = ops.expand_dims(counts, 2) > met  # after the accepted form
        gap_of_other = is_gap * of_gap(self._gaps(is_open))
        accepted, of_accepted = of_gap(accepted), of_gap(of_accepted)  # (batch, beams, n)

        # Either the token continues a form ...
        following = ops.where(state.is_alive, self._tokens_at(state.width), -1)
        goes_on = ops.expand_dims(tokens, 3) == ops.expand_dims(following, 2)
        saved = ops.maximum(shortest - lengths + width + 1, 0)  # of the shortest form
        saved = ops.max(ops.where(goes_on, ops.expand_dims(saved, 2), -1), axis=3)
        can_go_on = saved >= 0
        gap = is_gap * self._gaps(ops.expand_dims(counts > state.met, 2))
        needed = all_needed - ops.maximum(ops.maximum(saved, of_accepted), gap)
        # ... or the longest form so far is met, and the token may start another one.
        first = ops.where(is_open[:, :, 1], self.first_tokens, -1)
        starting = ops.where(follows_gap, tokens, NOTHING)
        starts = ops.expand_dims(starting, 3) == ops.expand_dims(first, 2)
        saved = ops.expand_dims(ops.maximum(shortest - lengths + 1, 0), 2)
        saved = ops.max(ops.where(starts, saved, 0), axis=3)
        needed_by_other = all_needed - of_accepted - ops.maximum(saved, gap_of_other)

        is_one = ops.logical_and(can_go_on, needed <= needed_by_other)
        is_alive = ops.where(ops.expand_dims(is_one, 3), goes_on, starts)
        least = ops.where(is_alive, ops.expand_dims(lengths, 2), NO_LENGTH)
        least = ops.min(least, axis=3)  # length of the shortest form at the end
        is_within = least < NO_LENGTH
        is_met = self._is_of(ops.where(is_one, -1, accepted))
        after = TermState(
            met=ops.expand_dims(state.met, 2) + ops.cast(is_met, "int32"),
            width=ops.where(is_one, width + 1, ops.cast(is_within, "int32")),
            is_alive=is_alive,
            accepted=ops.where(is_one, accepted, -1),
            needed=ops.where(is_one, needed, needed_by_other),
        )
        is_within = ops.logical_and(is_within, after.accepted < 0)
        is_lost = ops.logical_not(ops.logical_or(can_go_on, accepted >= 0))
        is_broken = ops.logical_and(is_lost, ops.expand_dims(self._has_reserved(state.is_alive), 2))
        belongs = ops.logical_or(self._has_reserved(is_alive), self._is_free(tokens))
        return TermExtensions(
            state=after,
            has_met=self._has_met(after),
            missing=ops.where(is_within, least - after.width, 0),
            is_broken=ops.logical_or(is_broken, ops.logical_not(belongs)),
        )

    def num_hypotheses(self, beam_size: int) -> Tensor:
        """Return `hypotheses_needed` for each sentence, or at least the beam size: (batch,)."""
        size = ops.full_like(self.num_needed, SIZES[-1])
        for smaller in SIZES[-2::-1]:
            size = ops.where(self.num_needed <= smaller, smaller, size)
        return ops.maximum(size, beam_size)

    def is_forced(self, state: TermState, room: Tensor) -> Tensor:
        """Return whether the next token must belong to a term: bool (batch, beams).

        Args:
            state: the state of the hypotheses.
            room: int32 (batch, 1), number of tokens before the limit.
        """
        return ops.logical_or(state.needed >= room, self._has_reserved(self._is_whole(state)))

    def _num_tokens(self, counts: Tensor) -> Tensor:
        """Return how many tokens the terms need that often: (...,) for counts (..., forms)."""
        shortest = ops.where(self.is_first, self.shortest, 0)
        if len(counts.shape) == 3:
            shortest = ops.expand_dims(shortest, 1)
        return ops.sum(ops.maximum(counts, 0) * shortest, axis=-1)

    def _is_whole(self, state: TermState) -> Tensor:
        """Return whether hypotheses end with each form: bool (batch, beams, forms)."""
        is_end = ops.expand_dims(state.width, 2) == self.lengths[:, None]
        return ops.logical_and(state.is_alive, is_end)

    def _ending(self, state: TermState) -> Tensor:
        """Return the term of the longest form if a word ends here, or -1: (batch, beams)."""
        is_whole = self._is_whole(state)
        numbers = ops.arange(ops.shape(self.term)[1], dtype="int32")
        first = ops.min(ops.where(is_whole, numbers, NO_LENGTH), axis=2, keepdims=True)
        term = ops.max(ops.where(numbers == first, self.term[:, None], -1), axis=2)
        return ops.where(term >= 0, term, state.accepted)

    def _has_met(self, state: TermState) -> Tensor:
        """Return which terms have been met: bool (batch, beams, n, forms), like the state."""
        is_end = ops.expand_dims(state.width, 3) == ops.expand_dims(self.lengths, (1, 2))
        is_whole = ops.logical_and(state.is_alive, is_end)
        _, beams, number, num_forms = ops.shape(is_whole)
        is_whole = ops.reshape(ops.cast(is_whole, "float32"), (-1, beams * number, num_forms))
        is_new = ops.matmul(is_whole, self.is_same_term) > 0
        is_new = ops.reshape(is_new, (-1, beams, number, num_forms))
        is_new = ops.cast(ops.logical_or(is_new, self._is_of(state.accepted)), "int32")
        return state.met + is_new >= ops.expand_dims(self.counts, (1, 2))

    def _is_of(self, terms: Tensor) -> Tensor:
        """Return which forms belong to `terms` (batch, beams, n): (batch, beams, n, forms)."""
        return ops.expand_dims(terms, 3) == ops.expand_dims(self.term, (1, 2))

    def _gaps(self, is_open: Tensor) -> Tensor:
        """Return 1 if an open form (batch, beams, n, forms) needs a gap: (batch, beams, n)."""
        needs_gap = ops.logical_and(is_open, ops.expand_dims(self.needs_gap, (1, 2)))
        return ops.cast(ops.any(needs_gap, axis=3), "int32")

    def _has_reserved(self, forms: Tensor) -> Tensor:
        """Return whether any of the forms (batch, ..., forms) is reserved: (batch, ...)."""
        axes = tuple(range(1, len(forms.shape) - 1))
        return ops.any(ops.logical_and(forms, ops.expand_dims(self.is_reserved, axes)), axis=-1)

    def _is_free(self, tokens: Tensor) -> Tensor:
        """Return whether tokens (batch, beams, n) may occur outside forms."""
        is_reserved = ops.expand_dims(tokens, 3) == ops.expand_dims(self.reserved, (1, 2))
        return ops.logical_not(ops.any(is_reserved, axis=3))

    def _flags(self, tokens: Tensor) -> Tensor:
        return ops.take(self.token_flags, ops.maximum(tokens, 0), axis=0)

    def _tokens_at(self, width: Tensor) -> Tensor:
        """Return the token of each form at position `width`, or -1: (batch, beams, forms)."""
        places = ops.arange(ops.shape(self.tokens)[2], dtype="int32")
        is_here = ops.expand_dims(width, (2, 3)) == places
        return ops.max(ops.where(is_here, self.tokens[:, None], -1), axis=3)


def checked_terms(terms: Tensor, vocabulary_size: int) -> Tensor:
    """Require an array of forms as in `RequiredTerms`, and return it as int32 if it is known."""
    shape = tuple(terms.shape) if hasattr(terms, "shape") else np.shape(terms)
    if len(shape) != 3 or (isinstance(shape[2], int) and shape[2] <= FIRST_TOKEN):
        refuse("terms", "have the shape (batch, forms, 3 + form_length)", shape=shape)
    known = known_values(terms)
    if known is None:
        return terms
    tokens = known[:, :, FIRST_TOKEN:]
    if np.max(tokens, initial=-1) >= vocabulary_size:
        refuse("terms", f"have tokens below {vocabulary_size}", largest=int(tokens.max()))
    is_term = (known[:, :, TERM] >= 0) & (known[:, :, TERM] < known.shape[1])
    if not is_term.all():
        refuse("terms", "have term numbers from 0 to the number of forms", shape=shape)
    return known.astype("int32")


def _ends_word(flags: Tensor) -> Tensor:
    return flags % 2 == ENDS_WORD


def _joins_word(flags: Tensor) -> Tensor:
    return flags % IS_GAP >= JOINS_WORD

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
    candidates   hypotheses, each extended by one token
    forms        forms of the terms of a sentence
    terms        terms of a sentence
    form_length  tokens of a form

Reference:
    Post and Vilar, "Fast Lexically Constrained Decoding with Dynamic Beam Allocation for Neural
    Machine Translation", 2018; Hu et al., "Improved Lexically Constrained Decoding for Translation
    and Monolingual Rewriting", 2019.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from keras import ops

from keras_transformer.argument_checks import known_values
from keras_transformer.decoding.sentence_loop import choose
from keras_transformer.errors import refuse
from keras_transformer.types import ENDS_WORD, IS_GAP, JOINS_WORD, Tensor, TermForm

# Columns of an array of forms. The tokens of the form follow, padded with -1.
TERM, COUNT, IS_RESERVED, FIRST_TOKEN = range(4)


class TermState(NamedTuple):
    """How much of its terms each hypothesis has met."""

    met: Tensor  # (batch, beams, terms) how often each term has been met
    width: Tensor  # (batch, beams) number of last tokens that form the start of at least one form
    is_alive: Tensor  # (batch, beams, forms) the last `width` tokens are the start of this form
    accepted: Tensor  # (batch, beams) longest form within the last `width` tokens, or -1
    is_gap: Tensor  # (batch, beams) the last token does not end with a letter


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
        forms = ops.cast(self.forms, "int32")
        self.tokens = forms[:, :, FIRST_TOKEN:]  # (batch, forms, form_length)
        self.term = forms[:, :, TERM]  # (batch, forms)
        self.is_reserved = forms[:, :, IS_RESERVED] > 0
        self.lengths = ops.sum(ops.cast(self.tokens >= 0, "int32"), axis=2)  # (batch, forms)
        is_form = forms[:, :, COUNT] > 0
        # There are at most as many terms as forms.
        numbers = ops.arange(forms.shape[1], dtype="int32")
        is_of = ops.logical_and(ops.expand_dims(self.term, 1) == numbers[:, None], is_form[:, None])
        counts = ops.where(is_of, forms[:, None, :, COUNT], 0)  # (batch, terms, forms)
        self.counts = ops.max(counts, axis=2)  # (batch, terms)
        lengths = ops.where(is_of, self.lengths[:, None], NO_LENGTH)
        joins_word = ops.logical_and(is_form, self._joins_word(self.tokens[:, :, 0]))
        # A form that joins a word may need a gap before it.
        lengths = lengths + ops.cast(joins_word, "int32")[:, None]
        shortest = ops.min(lengths, axis=2)  # (batch, terms)
        self.shortest = ops.where(shortest < NO_LENGTH, shortest, 0)
        self.joins_word = joins_word
        is_gap = ops.cast(self.token_flags >= IS_GAP, "int32")
        self.gap = ops.where(ops.any(is_gap > 0), ops.cast(ops.argmax(is_gap), "int32"), -1)
        self.total = ops.sum(self.counts * self.shortest, axis=1)  # (batch,), tokens of all terms

    def of_sentences(self, rows: Tensor | None) -> Self:
        """Return the terms of some sentences of the batch."""
        if rows is None:
            return self
        return dataclasses.replace(self, forms=ops.take(self.forms, rows, axis=0))

    def start(self, beams: int) -> TermState:
        """Return the state of hypotheses without tokens."""
        batch_size, num_forms = ops.shape(self.term)
        return TermState(
            met=ops.zeros((batch_size, beams, num_forms), dtype="int32"),
            width=ops.zeros((batch_size, beams), dtype="int32"),
            is_alive=ops.zeros((batch_size, beams, num_forms), dtype="bool"),
            accepted=ops.full((batch_size, beams), -1, dtype="int32"),
            is_gap=ops.ones((batch_size, beams), dtype="bool"),
        )

    def next_tokens(self, state: TermState, last: Tensor) -> Tensor:
        """Return the tokens that meet a term or a part of it, the gap, and EOS.

        Args:
            state: the state of the hypotheses.
            last: int32 (batch, beams), their last tokens.

        Returns:
            int32 (batch, beams, 2 * forms + 2). Missing tokens are -1.
        """
        starts = ops.where(self._may_start(state.met, last), self.tokens[:, None, :, 0], -1)
        following = self._token_at(state.width)  # (batch, beams, forms)
        goes_on = ops.logical_and(state.is_alive, ops.expand_dims(state.width, 2) > 0)
        going_on = ops.where(goes_on, following, -1)
        eos = ops.full((*ops.shape(last), 1), self.eos, dtype="int32")
        gap = ops.broadcast_to(self.gap, ops.shape(eos))
        tokens = ops.concatenate([going_on, starts, gap, eos], axis=2)
        place = ops.arange(tokens.shape[2], dtype="int32")
        is_same = ops.expand_dims(tokens, 3) == ops.expand_dims(tokens, 2)
        is_earlier = ops.expand_dims(place, 1) > place  # (2 * forms + 2, 2 * forms + 2)
        is_repeated = ops.any(ops.logical_and(is_same, is_earlier), axis=3)
        return ops.where(is_repeated, -1, tokens)

    def after(
        self, state: TermState, last: Tensor, tokens: Tensor
    ) -> tuple[TermState, Tensor, Tensor]:
        """Extend hypotheses by one token each.

        Args:
            state: the state of the hypotheses before the token.
            last: int32 (batch, candidates), their last tokens.
            tokens: int32 (batch, candidates), the tokens that follow.

        Returns:
            `(state, needed, is_broken)`: the state after the token; int32 (batch, candidates), how
            many more tokens the open terms need at least; bool (batch, candidates), whether the
            token joins a reserved form to another word, or is reserved but belongs to no open form.
        """
        follows_gap = self._is_gap(last, tokens)
        width = ops.expand_dims(state.width, 2)
        is_begun = ops.logical_and(state.is_alive, width > 0)  # (batch, candidates, forms)
        is_whole = ops.logical_and(is_begun, width == self.lengths[:, None])
        is_accepted = ops.logical_and(is_whole, ops.expand_dims(follows_gap, 2))
        accepted = ops.where(ops.any(is_accepted, axis=2), _first(is_accepted), state.accepted)

        # Either the token continues a form ...
        goes_on = ops.logical_and(
            is_begun, self._token_at(state.width) == ops.expand_dims(tokens, 2)
        )
        is_gap = ops.logical_not(self._ends_word(tokens))
        one = TermState(state.met, state.width + 1, goes_on, accepted, is_gap)
        # ... or the longest form so far is met, and the token may start another one.
        numbers = ops.arange(state.met.shape[2], dtype="int32")
        is_met = ops.expand_dims(self._term_of(accepted), 2) == numbers
        met = state.met + ops.cast(is_met, "int32")
        starts = ops.logical_and(
            self._may_start(met, last), self.tokens[:, None, :, 0] == ops.expand_dims(tokens, 2)
        )
        has_started = ops.any(starts, axis=2)
        nothing = ops.full(ops.shape(tokens), -1, "int32")
        other = TermState(met, ops.cast(has_started, "int32"), starts, nothing, is_gap)
        needed, needed_by_other = self.needed(one), self.needed(other)
        can_go_on = ops.any(goes_on, axis=2)
        is_one = ops.logical_and(can_go_on, needed <= needed_by_other)
        after = TermState(*(_where(is_one, *parts) for parts in zip(one, other, strict=True)))
        is_lost = ops.logical_not(ops.logical_or(can_go_on, accepted >= 0))
        is_broken = ops.logical_and(is_lost, self._has_reserved(is_begun))
        is_stray = ops.logical_not(
            ops.logical_or(self._has_reserved(after.is_alive), self._is_free(tokens))
        )
        needed = ops.where(is_one, needed, needed_by_other)
        return after, needed, ops.logical_or(is_broken, is_stray)

    def is_forced(self, state: TermState, room: Tensor) -> Tensor:
        """Return whether the next token must belong to a term: bool (batch, beams).

        Args:
            state: the state of the hypotheses.
            room: int32 (batch, 1), number of tokens before the limit.
        """
        is_whole = ops.logical_and(
            state.is_alive, ops.expand_dims(state.width, 2) == self.lengths[:, None]
        )
        must_end = ops.any(ops.logical_and(is_whole, self.is_reserved[:, None]), axis=2)
        return ops.logical_or(self.needed(state) >= room, must_end)

    def num_places(self, beam_size: int, num_hypotheses: int) -> Tensor:
        """Return the number of hypotheses of each sentence: int32 (batch,)."""
        most = ops.minimum(ops.max(self.lengths, axis=1) - 1, MOST_MISSING)
        places = ops.sum(self.counts, axis=1) + 2 + ops.maximum(most, 0)
        return ops.minimum(ops.maximum(places, beam_size), num_hypotheses)

    def banks(self, has_met: Tensor, costs: Tensor, num_hypotheses: int) -> Tensor:
        """Return the bank of hypotheses: the number of costly terms that they have met.

        There are at most `num_hypotheses - MOST_MISSING` banks; with more terms, banks are shared.

        Args:
            has_met: bool (batch, candidates, terms).
            costs: float32 (batch, 1, terms), how much less probable each term makes an output. A
                term that the model would choose anyway makes no difference.

        Returns:
            int32 (batch, candidates).
        """
        weights = ops.minimum(costs / COSTLY, 1.0)
        met = ops.sum(ops.where(has_met, weights, 0.0), axis=2)  # (batch, candidates)
        num_terms = ops.cast(ops.sum(self.counts > 0, axis=1), "float32")[:, None]
        most = max(min(1, num_hypotheses - 1), num_hypotheses - MOST_MISSING - 1)
        met = met * ops.minimum(1.0, most / ops.maximum(num_terms, 1.0))
        return ops.cast(ops.floor(met + 0.5), "int32")

    def num_missing(self, state: TermState) -> Tensor:
        """Return how many tokens the term at the end of each hypothesis lacks.

        Returns:
            int32 (batch, candidates): at least 1 and at most `MOST_MISSING`, for the form that
            lacks the fewest; 0 for a hypothesis that does not end within a term.
        """
        missing = self.lengths[:, None] - ops.expand_dims(state.width, 2)
        is_begun = ops.logical_and(state.is_alive, missing > 0)
        fewest = ops.min(ops.where(is_begun, missing, MOST_MISSING), axis=2)
        is_within = ops.logical_and(state.width > 0, ops.logical_not(self._is_whole(state)))
        return ops.where(is_within, ops.minimum(fewest, MOST_MISSING), 0)

    def has_met(self, state: TermState) -> Tensor:
        """Return whether hypotheses have met each term: bool (batch, candidates, terms)."""
        is_end = ops.expand_dims(state.width, 2) == self.lengths[:, None]
        is_whole = ops.logical_and(state.is_alive, is_end)  # (batch, candidates, forms)
        numbers = ops.arange(self.term.shape[1], dtype="int32")
        is_accepted = ops.expand_dims(state.accepted, 2) == numbers
        is_new = ops.expand_dims(ops.logical_or(is_whole, is_accepted), 2)
        is_of = ops.expand_dims(self.term, 1) == numbers[:, None]  # (batch, terms, forms)
        is_new = ops.any(ops.logical_and(is_new, is_of[:, None]), axis=3)
        met = state.met + ops.cast(is_new, "int32")
        return ops.logical_and(self.counts[:, None] > 0, met >= self.counts[:, None])

    def _is_whole(self, state: TermState) -> Tensor:
        """Return whether hypotheses end with a whole term that has not been counted yet."""
        is_end = ops.expand_dims(state.width, 2) == self.lengths[:, None]
        is_whole = ops.logical_and(state.is_alive, is_end)
        return ops.logical_or(ops.any(is_whole, axis=2), state.accepted >= 0)

    def needed(self, state: TermState) -> Tensor:
        """Return how many more tokens the open terms need at least: int32 (batch, candidates)."""
        is_open = ops.maximum(self.counts[:, None] - state.met, 0)  # (batch, candidates, terms)
        tokens = ops.sum(is_open * self.shortest[:, None], axis=2)  # (batch, candidates)
        shortest = choose(ops.expand_dims(self.shortest, 2), self.term)[:, :, 0]  # (batch, forms)
        width = ops.expand_dims(state.width, 2)
        # The part of the shortest form that is saved by completing this form.
        saved = shortest[:, None] - (self.lengths[:, None] - width)
        is_begun = ops.logical_and(state.is_alive, width > 0)
        saved = ops.max(ops.where(is_begun, saved, 0), axis=2)
        numbers = ops.arange(self.term.shape[1], dtype="int32")
        is_accepted = ops.expand_dims(state.accepted, 2) == numbers
        accepted = ops.max(ops.where(is_accepted, shortest[:, None], 0), axis=2)
        # The gap before a form that joins a word.
        is_joining = ops.logical_and(_at(is_open, self.term) > 0, self.joins_word[:, None])
        is_joining = ops.logical_and(is_joining, (shortest > self.lengths)[:, None])
        gap = ops.logical_and(state.is_gap, ops.any(is_joining, axis=2))
        saved = ops.maximum(ops.maximum(saved, accepted), ops.cast(gap, "int32"))
        return tokens - ops.maximum(saved, 0)

    def _has_reserved(self, forms: Tensor) -> Tensor:
        """Return whether any of the forms (batch, candidates, forms) is reserved."""
        return ops.any(ops.logical_and(forms, self.is_reserved[:, None]), axis=2)

    def _is_free(self, tokens: Tensor) -> Tensor:
        """Return whether tokens may occur outside forms: bool (batch, candidates)."""
        is_reserved = ops.logical_and(self.tokens >= 0, ops.expand_dims(self.is_reserved, 2))
        reserved = ops.where(is_reserved, self.tokens, -1)  # (batch, forms, form_length)
        _, num_forms, length = ops.shape(reserved)
        reserved = ops.reshape(reserved, (-1, 1, num_forms * length))
        return ops.all(ops.expand_dims(tokens, 2) != reserved, axis=2)

    def _may_start(self, met: Tensor, last: Tensor) -> Tensor:
        """Return whether a form may start after the tokens `last`: (batch, candidates, forms)."""
        is_open = ops.cast(self.counts[:, None] > met, "int32")  # (batch, candidates, terms)
        is_open = _at(is_open, self.term) > 0  # (batch, candidates, forms)
        is_open = ops.logical_and(is_open, self.lengths[:, None] > 0)
        first = ops.maximum(self.tokens[:, None, :, 0], 0)
        return ops.logical_and(is_open, self._is_gap(ops.expand_dims(last, 2), first))

    def _is_gap(self, last: Tensor, tokens: Tensor) -> Tensor:
        """Return whether a word ends between two tokens."""
        return ops.logical_not(ops.logical_and(self._ends_word(last), self._joins_word(tokens)))

    def _ends_word(self, tokens: Tensor) -> Tensor:
        return ops.take(self.token_flags, ops.maximum(tokens, 0), axis=0) % 2 == ENDS_WORD

    def _joins_word(self, tokens: Tensor) -> Tensor:
        flags = ops.take(self.token_flags, ops.maximum(tokens, 0), axis=0)
        return flags % IS_GAP >= JOINS_WORD

    def _token_at(self, width: Tensor) -> Tensor:
        """Return the token of each form at position `width`, or -1: (batch, candidates, forms)."""
        length = ops.shape(self.tokens)[2]
        place = ops.expand_dims(ops.minimum(width, length - 1), 2)  # (batch, candidates, 1)
        is_here = ops.arange(length, dtype="int32") == ops.expand_dims(place, 3)
        token = ops.max(ops.where(is_here, self.tokens[:, None], -1), axis=3)
        return ops.where(ops.expand_dims(width, 2) < length, token, -1)

    def _term_of(self, form: Tensor) -> Tensor:
        """Return the term of a form, -1 for -1: (batch, candidates)."""
        terms = choose(ops.expand_dims(self.term, 2), ops.maximum(form, 0))[:, :, 0]
        return ops.where(form >= 0, terms, -1)


def array_of_terms(rows: Sequence[Sequence[TermForm]]) -> np.ndarray:
    """Return the `forms` of `RequiredTerms` for the forms of several sentences.

    Sizes are powers of 2, for backends that compile each shape separately.
    """
    number = max(map(len, rows), default=1)
    length = max((len(form.tokens) for row in rows for form in row), default=1)
    number, length = (1 << max(each - 1, 0).bit_length() for each in (number, length))
    array = np.full((len(rows), number, FIRST_TOKEN + length), -1, "int32")
    array[:, :, :FIRST_TOKEN] = 0
    for forms, row in zip(array, rows, strict=True):
        for values, form in zip(forms, row, strict=False):
            values[:FIRST_TOKEN] = form[:FIRST_TOKEN]
            values[FIRST_TOKEN : FIRST_TOKEN + len(form.tokens)] = form.tokens
    return array


def tokens_needed(forms: Sequence[TermForm]) -> int:
    """Return at most how many tokens the terms of a sentence need, with gaps between them."""
    return sum(form.times * (len(form.tokens) + 1) for form in shortest_forms(forms))


def shortest_forms(forms: Sequence[TermForm]) -> list[TermForm]:
    """Return the shortest form of each term of a sentence."""
    by_term: dict[int, TermForm] = {}
    for form in forms:
        best = by_term.setdefault(form.term, form)
        if len(form.tokens) < len(best.tokens):
            by_term[form.term] = form
    return list(by_term.values())


NO_LENGTH = 1 << 20
COSTLY = 3.0  # natural logarithm; terms that cost less hardly need a bank
MOST_MISSING = 3  # hypotheses within a term that lack more tokens compete with each other
SIZES = (4, 6, 8, 10)  # numbers of hypotheses, each of which needs its own graph


def hypotheses_for(terms: Any, beam_size: int) -> int | None:
    """Return the number of hypotheses for a search with the given terms, or None without terms."""
    if terms is None:
        return None
    known = known_values(terms)
    if known is None:
        return max(beam_size, SIZES[-1])
    # Each term counts once, with the largest count of its forms.
    counts = np.zeros((len(known), known.shape[1]), "int32")
    np.maximum.at(counts, (np.arange(len(known))[:, None], known[:, :, TERM]), known[:, :, COUNT])
    most_terms = int(np.max(counts.sum(axis=1), initial=0))
    return _hypotheses(most_terms, known.shape[2] - FIRST_TOKEN, beam_size)


def hypotheses_of(forms: Sequence[TermForm], beam_size: int) -> int | None:
    """Return the number of hypotheses for a sentence with the given terms, or None without."""
    num_terms = sum(form.times for form in shortest_forms(forms))
    longest = max((len(form.tokens) for form in forms), default=1)
    return _hypotheses(num_terms, longest, beam_size) if num_terms else None


def _hypotheses(num_terms: int, longest: int, beam_size: int) -> int:
    """Return one of `SIZES`, or the beam size if it is larger."""
    needed = num_terms + 2 + min(longest - 1, MOST_MISSING)
    enough = (size for size in SIZES if size >= needed)
    return max(beam_size, next(enough, SIZES[-1]))


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


def _where(condition: Tensor, one: Tensor, other: Tensor) -> Tensor:
    if len(one.shape) == 3:
        condition = ops.expand_dims(condition, 2)
    return ops.where(condition, one, other)


def _first(is_there: Tensor) -> Tensor:
    """Return the index of the first True on the last axis, 0 if there is none."""
    return ops.cast(ops.argmax(ops.cast(is_there, "int32"), axis=-1), "int32")


def _at(values: Tensor, places: Tensor) -> Tensor:
    """Gather `values` (batch, candidates, n) at `places` (batch, m): (batch, candidates, m)."""
    return ops.transpose(choose(ops.transpose(values, (0, 2, 1)), places), (0, 2, 1))

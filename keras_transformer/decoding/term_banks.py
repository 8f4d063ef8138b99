"""The hypotheses that a search with required terms keeps.

Hypotheses compete in banks, by the number of costly terms that they have met, and those that end
within a term do not compete with others; see `decoding.required_terms`.

Axes in the shape comments:
    batch        sentences
    beams        hypotheses per sentence
    candidates   extensions of the hypotheses by one token each
    forms        forms of the terms of a sentence
"""

import keras
from keras import ops

from keras_transformer.decoding.next_tokens import (
    LOWEST,
    NEVER,
    Extensions,
    OutputRules,
    extensions_of_each,
)
from keras_transformer.decoding.required_terms import RequiredTerms, TermState
from keras_transformer.decoding.sentence_loop import choose, reorder, stable_top_k
from keras_transformer.types import MOST_MISSING, Tensor

COSTLY = 3.0  # natural logarithm; terms that cost less hardly need a bank


def best_of_each_bank(
    logits: Tensor,
    log_probs: Tensor,
    ids: Tensor,
    index: Tensor,
    rules: OutputRules,
    terms: RequiredTerms,
    state: TermState,
    last: Tensor,
    beam_size: int,
    ends_in_beam: bool,
) -> tuple[Extensions, Extensions, TermState]:
    """Extend hypotheses by one token each and choose among those that can still meet their terms.

    See `best_of_banks` for the choice. The number of hypotheses depends on the number of terms, at
    least `beam_size`.

    Args:
        logits, log_probs, ids, index, rules: see `next_tokens.best_extensions`.
        terms: the terms of the sentences.
        state: how much of them the hypotheses have met.
        last: int32 (batch, beams), the last tokens of the hypotheses.
        beam_size: the beam size of the search options.
        ends_in_beam: whether a hypothesis ends only if EOS is among the `beam_size` best
            continuations of those that have met all terms.

    Returns:
        `(ended, live, state)`: the hypotheses that end, and those that continue, both best first,
        (batch, beams); and the state of the latter.
    """
    num_hypotheses = ops.shape(log_probs)[1]
    own_number = ops.minimum(terms.num_hypotheses(beam_size), num_hypotheses)  # (batch,)
    room = ops.expand_dims(rules.limits, 1) - index  # (batch, 1)
    log_probs, tokens = extensions_of_each(
        logits,
        log_probs,
        beam_size + 2,  # some may be EOS or reserved for terms
        ids,
        index,
        rules,
        terms.next_tokens(state, last),
        terms.is_forced(state, room),
    )
    after = terms.after(state, last, tokens)
    is_eos = tokens == rules.special_tokens.eos  # (batch, beams, n)
    needed = after.state.needed
    is_possible = ops.where(is_eos, needed == 0, needed < ops.expand_dims(room, 2))
    is_possible = ops.logical_and(is_possible, ops.logical_not(after.is_broken))
    log_probs = ops.where(is_possible, log_probs, NEVER)
    parents = ops.arange(num_hypotheses, dtype="int32")[:, None]
    found = Extensions(log_probs, tokens, ops.broadcast_to(parents, ops.shape(tokens)))
    found, after, is_eos = keras.tree.map_structure(_joined, (found, after, is_eos))

    live_log_probs = ops.where(is_eos, NEVER, found.log_probs)  # (batch, candidates)
    ended_log_probs, ending = stable_top_k(
        ops.where(is_eos, found.log_probs, NEVER), num_hypotheses
    )
    if ends_in_beam:
        is_complete = ops.logical_and(after.state.needed == 0, live_log_probs > LOWEST)
        complete = ops.where(is_complete, live_log_probs, NEVER)
        better = ops.expand_dims(complete, 1) > ops.expand_dims(ended_log_probs, 2)
        num_better = ops.sum(ops.cast(better, "int32"), axis=2)
        num_better = num_better + ops.arange(num_hypotheses, dtype="int32")
        ended_log_probs = ops.where(num_better < beam_size, ended_log_probs, NEVER)
    costs = costs_of_terms(live_log_probs, after.has_met)
    costs = ops.where(ops.expand_dims(terms.is_first, 1), costs, 0.0)  # each term once
    live_log_probs, places = best_of_banks(
        live_log_probs,
        ops.sum(ops.where(after.has_met, costs, 0.0), axis=2),
        bank_numbers(after.has_met, costs, terms, own_number),
        ops.minimum(after.missing, MOST_MISSING),
        ops.minimum(ops.maximum(terms.num_needed, beam_size), own_number),
        num_hypotheses,
    )
    ended, live = (
        Extensions(values, choose(found.tokens, each), choose(found.parents, each))
        for each, values in ((ending, ended_log_probs), (places, live_log_probs))
    )
    return ended, live, reorder(after.state, places)


def _joined(values: Tensor) -> Tensor:
    """Reshape values (batch, beams, n, ...) to (batch, candidates, ...)."""
    _, beams, number, *rest = ops.shape(values)
    return ops.reshape(values, (-1, beams * number, *rest))


def costs_of_terms(log_probs: Tensor, has_met: Tensor) -> Tensor:
    """Return what each term costs: the difference between the best candidates without and with it.

    Args:
        log_probs: float32 (batch, candidates).
        has_met: bool (batch, candidates, forms), whether each candidate has met the term of each
            form.

    Returns:
        float32 (batch, 1, forms), at least 0, which is also the cost of a term that none has met.
    """
    with_it, without_it = (
        ops.max(ops.where(each, ops.expand_dims(log_probs, 2), NEVER), axis=1, keepdims=True)
        for each in (has_met, ops.logical_not(has_met))
    )
    is_known = ops.logical_and(with_it > LOWEST, without_it > LOWEST)  # (batch, 1, forms)
    costs = ops.where(is_known, without_it, 0.0) - ops.where(is_known, with_it, 0.0)
    return ops.maximum(costs, 0.0)


def best_of_banks(
    log_probs: Tensor,
    bonus: Tensor,
    banks: Tensor,
    num_missing: Tensor,
    num_places: Tensor,
    num_hypotheses: Tensor,
) -> tuple[Tensor, Tensor]:
    """Choose the hypotheses to continue.

    First the best of each bank; then, of the hypotheses that end within a term, the best for each
    number of missing tokens, so that they do not compete with hypotheses that have just begun a
    term; then all others. Except for the first, hypotheses are compared by how much worse they are
    than the best of their bank.

    Args:
        log_probs: float32 (batch, candidates), -inf for candidates that cannot be chosen.
        bonus: float32 (batch, candidates), the cost of the terms that each candidate has met. It is
            added to the log-probabilities to compare candidates.
        banks: int32 (batch, candidates), the bank of each candidate, below `num_hypotheses`.
        num_missing: int32 (batch, candidates), number of tokens that the term at the end of a
            candidate lacks, at most `MOST_MISSING`; 0 for none.
        num_places: int32 (batch,), number of hypotheses to choose.
        num_hypotheses: the largest number.

    Returns:
        `(log_probs, places)`, float32 and int32 (batch, num_hypotheses), best first.
    """
    values = log_probs + bonus
    best, firsts, is_first = _best_of_groups(
        values, banks, ops.arange(num_hypotheses, dtype="int32")
    )
    best_of_own = choose(ops.expand_dims(best, 2), banks)[:, :, 0]  # (batch, candidates)
    is_left = ops.logical_and(values > LOWEST, ops.logical_not(is_first))
    differences = ops.where(is_left, values - ops.where(is_left, best_of_own, 0.0), NEVER)
    within, seconds, is_second = _best_of_groups(
        differences, num_missing, ops.arange(1, MOST_MISSING + 1, dtype="int32")
    )
    others, thirds = stable_top_k(ops.where(is_second, NEVER, differences), num_hypotheses)
    found = ops.concatenate([best, within, others], axis=1)
    places = ops.concatenate([firsts, seconds, thirds], axis=1)
    _, order = stable_top_k(ops.cast(found > LOWEST, "int32"), num_hypotheses)  # in order, if any
    is_place = ops.arange(num_hypotheses) < ops.expand_dims(num_places, 1)
    is_place = ops.logical_and(is_place, choose(found, order) > LOWEST)
    places = choose(places, order)
    chosen = ops.where(is_place, choose(log_probs, places), NEVER)
    chosen, order = stable_top_k(chosen, num_hypotheses)
    return chosen, choose(places, order)


def _best_of_groups(
    values: Tensor, groups: Tensor, numbers: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the largest of `values` (batch, candidates) in each group: values, places, a mask."""
    is_in = ops.expand_dims(groups, 1) == ops.expand_dims(numbers, 1)
    best, places = stable_top_k(ops.where(is_in, ops.expand_dims(values, 1), NEVER), 1)
    candidates = ops.arange(ops.shape(values)[1], dtype="int32")
    is_best = ops.any(ops.logical_and(places == candidates, best > LOWEST), axis=1)
    return best[..., 0], places[..., 0], is_best


def bank_numbers(
    has_met: Tensor, costs: Tensor, terms: RequiredTerms, num_hypotheses: Tensor
) -> Tensor:
    """Return the bank of hypotheses: the number of costly terms that they have met.

    There are at most `num_hypotheses - MOST_MISSING` banks; with more terms, banks are shared.

    Args:
        has_met: bool (batch, candidates, forms).
        costs: float32 (batch, 1, forms), how much less probable each term makes an output, 0 for
            all forms of a term but the first. A term that the model would choose anyway makes no
            difference.
        terms: the terms.
        num_hypotheses: int32 (batch,), the number of hypotheses of each sentence.

    Returns:
        int32 (batch, candidates).
    """
    weights = ops.minimum(costs / COSTLY, 1.0)
    met = ops.sum(ops.where(has_met, weights, 0.0), axis=2)  # (batch, candidates)
    num_terms = ops.sum(ops.cast(terms.is_first, "float32"), axis=1, keepdims=True)
    most = ops.maximum(ops.minimum(num_hypotheses, 2), num_hypotheses - MOST_MISSING) - 1
    most = ops.expand_dims(ops.cast(most, "float32"), 1)
    met = met * ops.minimum(1.0, most / ops.maximum(num_terms, 1.0))
    return ops.cast(ops.floor(met + 0.5), "int32")

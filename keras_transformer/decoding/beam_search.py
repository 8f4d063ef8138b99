"""Beam search for the most probable outputs, with one or more length penalties.

Axes in the shape comments:
    batch        sentences
    beams        `beam_size` hypotheses per sentence, best first
    candidates   2 * `beam_size` extensions of the live hypotheses per sentence, best first
    length       `max_length` + 1 output positions
    alphas       exponents of the length penalty, each with a pool of size 1
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.constraints import Constraint
from keras_transformer.decoding.next_tokens import (
    LOWEST,
    NEVER,
    Extensions,
    OutputRules,
    Step,
    best_extensions,
    checked_limits,
)
from keras_transformer.decoding.required_terms import RequiredTerms
from keras_transformer.decoding.sentence_loop import (
    choose,
    empty_ids,
    reorder,
    search_loop,
    stable_top_k,
    write_at,
)
from keras_transformer.decoding.sentence_loop import length_penalty as penalty_of
from keras_transformer.decoding.term_banks import best_of_each_bank
from keras_transformer.errors import refuse
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens, Tensor


class BeamState(NamedTuple):
    """The state between two search steps; a score of -inf marks an empty slot."""

    index: Tensor  # () position of `tokens` in the decoder input, where BOS is at 0
    tokens: Tensor  # (batch, beams) last token of each live hypothesis
    live_ids: Tensor  # (batch, beams, length)
    live_log_probs: Tensor  # (batch, beams)
    finished_ids: Tensor  # (batch, beams, length)
    finished_scores: Tensor  # (batch, beams) log-probabilities divided by the length penalty
    model_state: Any  # nest of (batch, beams, ...)
    terms: Any = ()  # a `TermState` if the search has terms


class Candidates(NamedTuple):
    """Live hypotheses extended by one token each."""

    tokens: Tensor  # (batch, candidates) the new token
    ids: Tensor  # (batch, candidates, length)
    log_probs: Tensor  # (batch, candidates)
    parents: Tensor  # (batch, candidates) beam index of the extended hypothesis


def beam_search(
    step: Step,
    state: Any,
    *,
    batch_size: Tensor,
    beam_size: int,
    alpha: float,
    limits: Tensor,
    special_tokens: SpecialTokens,
    max_length: Tensor,
    num_results: int | None = None,
    length_penalty: str = "gnmt",
    ending: str = "any",
    vocabulary_size: int | None = None,
    constraints: Sequence[Constraint] = (),
    with_xla: bool = False,
    logit_tokens: Tensor | None = None,
    terms: RequiredTerms | None = None,
    num_hypotheses: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Search for the n best outputs of each sentence.

    Finished hypotheses move to a separate pool with fixed scores. Each step considers twice as many
    candidates as beams, so at least `beam_size` hypotheses remain even if `beam_size` candidates
    end. The search for a sentence stops as soon as its results are final (see
    `decoding.sentence_loop`). The results do not depend on other sentences in the batch.

    Args:
        step: callable `(tokens, index, state) -> (logits, state)` that maps the tokens at position
            `index`, int32 (batch, beam_size), to the logits of the next position, (batch,
            beam_size, vocabulary). `index` is an int32 scalar; BOS is at 0.
        state: additional state of `step`: nested tensors (batch, beam_size, ...) with constant
            shapes. The search reorders the state together with the hypotheses. Any part with a
            method `reorder(parents)`, such as a `SentenceState` of tensors (batch, ...), is
            replaced by the result of that method. On TensorFlow, axes of unknown size may grow.
        batch_size: int or int32 scalar, number of sentences.
        beam_size: number of hypotheses per sentence.
        alpha: exponent of the length penalty, at least 0.
        limits: int32 (batch,), maximum number of output tokens per sentence, excluding EOS. A
            hypothesis that reaches its limit ends with EOS.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        max_length: int or int32 scalar, at least the largest of `limits`.
        num_results: number of outputs, at most `beam_size` (the default). With fewer results, the
            search may stop earlier; the best output is the same.
        length_penalty: form of the penalty, "gnmt" or "power" (see `decoding.length_penalty`).
        ending: "any", "transformers", "first" or "marian"; see `SearchOptions`.
        vocabulary_size: number of tokens. Logits beyond this number are vocabulary padding, which
            is never produced. If None, every logit belongs to a token.
        constraints: callables, strongest first; see `decoding.constraints`. If no token satisfies
            all constraints, conflicting later ones are ignored. The limit overrides them all.
        with_xla: whether XLA compiles the search on TensorFlow; see `decoding.sentence_loop`.
        logit_tokens: int32 (logits,), the token of each logit in ascending order, if `step` returns
            logits for only some tokens. There must be at least two tokens, including EOS. Padding
            and BOS must have logits of -inf. If None, logit i belongs to token i.
        terms: terms that every output must contain. Their shortest forms must fit into `limits`.
            They override all constraints except prefixes.
        num_hypotheses: int, or int32 scalar on TensorFlow: number of live hypotheses of the step
            function, at least `beam_size`. Only sentences with terms use more than `beam_size`.

    Returns:
        `(ids, scores)`, best first. `ids`, int32 (batch, num_results, max_length + 1), contains the
        output tokens without BOS, followed by EOS and padding. `scores`, float32 (batch,
        num_results), contains natural-log probabilities divided by `length_penalty`. They include
        EOS, unless the limit forces EOS and `ending` is not "any". Empty slots contain padding and
        -inf.

    Raises:
        ValueError: `beam_size` or `num_results` is not a positive integer, `num_results` is greater
            than `beam_size`, `alpha` is negative or not a number, `length_penalty` or `ending` is
            unknown, or `max_length` is less than a limit.

    Example:
        >>> import keras
        >>> from keras_transformer.types import SpecialTokens
        >>> table = keras.ops.log([[0.1, 0.1, 0.2, 0.6], [0.1, 0.1, 0.5, 0.3]])
        >>> def step(tokens, index, state):  # token 3 is likely after BOS (1), EOS (2) after 3
        ...     row = keras.ops.cast(tokens == 3, "int32")
        ...     return keras.ops.take(table, row, axis=0), state
        >>> ids, scores = beam_search(
        ...     step, (), batch_size=1, beam_size=2, alpha=0.0, limits=[2],
        ...     special_tokens=SpecialTokens(), max_length=2,
        ... )
        >>> keras.ops.convert_to_numpy(ids).tolist()
        [[[3, 2, 0], [2, 0, 0]]]
        >>> print(keras.ops.convert_to_numpy(keras.ops.exp(scores)).round(4))
        [[0.3 0.2]]

    Reference:
        Wu et al., "Google's Neural Machine Translation System", 2016, section 7.
    """
    SearchOptions(  # validates the options
        beam_size=beam_size,
        alpha=alpha,
        num_results=num_results,
        length_penalty=length_penalty,
        ending=ending,
    )
    is_free = ending != "any"
    num_ending = (1 if is_free else 2) * beam_size  # number of candidates that may end
    num_results = beam_size if num_results is None else num_results
    limits = checked_limits(limits, max_length)
    rules = OutputRules(limits, special_tokens, vocabulary_size, constraints, is_free, logit_tokens)
    num_hypotheses = beam_size if num_hypotheses is None else num_hypotheses

    def advance(beams: BeamState, rows: Tensor | None) -> BeamState:
        logits, model_state = step(beams.tokens, beams.index, beams.model_state)
        own_rules = rules.of_sentences(rows)
        live: Candidates | None = None
        term_state: Any = ()
        if terms is None:
            candidates = expand(beams, logits, own_rules)
        else:
            *found, term_state = best_of_each_bank(
                logits,
                beams.live_log_probs,
                beams.live_ids,
                beams.index,
                own_rules,
                terms.of_sentences(rows),
                beams.terms,
                beams.tokens,
                beam_size,
                is_free,
            )
            candidates, live = (extended(beams, each) for each in found)
        lengths = beams.index + 1  # () or (batch,)
        if ending == "marian":
            candidates = in_open_places(beams, candidates)
            # Marian truncates outputs at the limit without EOS. All other endings count EOS as a
            # token.
            lengths = ops.minimum(beams.index + 1, ops.maximum(own_rules.limits, 1))
        if live is None:
            live = keep_live(candidates, beam_size, special_tokens)
        finished_ids, finished_scores = merge_finished(
            beams, candidates, lengths, alpha, special_tokens, length_penalty, num_ending
        )
        beams = after_step(beams, live, finished_ids, finished_scores, model_state, term_state)
        if ending == "any":
            return beams
        # A sentence whose search has stopped must not continue with the rest of the batch.
        live_log_probs = ops.where(is_open(beams, rows)[:, None], beams.live_log_probs, NEVER)
        return beams._replace(live_log_probs=live_log_probs)

    def is_open(beams: BeamState, rows: Tensor | None) -> Tensor:
        limits = rules.of_sentences(rows).limits
        return should_continue(beams, limits, alpha, num_results, length_penalty, ending)

    first = start(state, batch_size, num_hypotheses, max_length, special_tokens, beam_size)
    if terms is not None:
        first = first._replace(terms=terms.start(num_hypotheses))
    return search_loop(
        advance,
        is_open,
        lambda beams: (beams.finished_ids[:, :num_results], beams.finished_scores[:, :num_results]),
        first,
        rules.limits,
        may_leave=rules.know_their_sentences(),
        with_xla=with_xla,
    )


def start(
    model_state: Any,
    batch_size: Tensor,
    beam_size: int,
    max_length: Tensor,
    special_tokens: SpecialTokens,
    num_finished: int | None = None,
) -> BeamState:
    """Return the initial state: an empty pool and BOS as the only live hypothesis.

    The pool has `num_finished` slots, by default `beam_size`.
    """
    places = (batch_size, beam_size if num_finished is None else num_finished)
    empty = ops.full((batch_size, beam_size), NEVER, dtype="float32")  # (batch, beams)
    return BeamState(
        index=ops.zeros((), dtype="int32"),
        tokens=ops.full((batch_size, beam_size), special_tokens.bos, dtype="int32"),
        live_ids=empty_ids((batch_size, beam_size), max_length, special_tokens),
        live_log_probs=ops.where(ops.arange(beam_size) == 0, 0.0, empty),
        finished_ids=empty_ids(places, max_length, special_tokens),
        finished_scores=ops.full(places, NEVER, dtype="float32"),
        model_state=model_state,
    )


def after_step(
    beams: BeamState,
    live: Candidates,
    finished_ids: Tensor,
    finished_scores: Tensor,
    model_state: Any,
    terms: Any = (),
) -> BeamState:
    """Return the state after a step, with live hypotheses and the pool of finished hypotheses."""
    return BeamState(
        index=beams.index + 1,
        tokens=live.tokens,
        live_ids=live.ids,
        live_log_probs=live.log_probs,
        finished_ids=finished_ids,
        finished_scores=finished_scores,
        model_state=reorder(model_state, live.parents),
        terms=terms,
    )


def should_continue(
    beams: BeamState,
    limits: Tensor,
    alpha: float,
    num_results: int,
    form: str = "gnmt",
    ending: str = "any",
) -> Tensor:
    """Return whether a live hypothesis could still become a result, per sentence: bool (batch,).

    Log-probabilities can only decrease, and the penalty is most favorable at the sentence's limit.
    "transformers" uses the current length instead and waits for a full pool. With "first", the
    search stops as soon as the pool is full. With "marian", all live hypotheses continue. No
    hypothesis continues beyond the limit, even if scores are not finite.
    """
    within_limit = beams.index <= limits
    if ending == "marian":
        is_full = beams.finished_scores[:, -1] > LOWEST
        can_go_on = ops.logical_and(beams.live_log_probs[:, 0] > LOWEST, ops.logical_not(is_full))
        return ops.logical_and(can_go_on, within_limit)
    if ending == "first":
        is_full = beams.finished_scores[:, -1] > LOWEST
        can_fill = ops.logical_and(ops.logical_not(is_full), beams.live_log_probs[:, 0] > LOWEST)
        return ops.logical_and(can_fill, within_limit)
    lengths = limits + 1  # (batch,)
    if ending == "transformers":
        lengths, num_results = ops.maximum(beams.index, 1), beams.finished_scores.shape[1]
    penalty = penalty_of(ops.cast(lengths, "float32"), alpha, form)  # (batch,) or ()
    best_possible = beams.live_log_probs[:, 0] / penalty  # (batch,)
    can_improve = beams.finished_scores[:, num_results - 1] < best_possible
    return ops.logical_and(can_improve, within_limit)


def expand(beams: BeamState, logits: Tensor, rules: OutputRules) -> Candidates:
    """Find the best one-token extensions of each sentence's live hypotheses."""
    found = best_extensions(
        logits, beams.live_log_probs, 2 * beams.tokens.shape[1], beams.live_ids, beams.index, rules
    )
    return extended(beams, found)


def extended(beams: BeamState, found: Extensions) -> Candidates:
    """Return extensions of the live hypotheses with their ids."""
    ids = choose(beams.live_ids, found.parents)  # (batch, candidates, length)
    ids = write_at(ids, beams.index, found.tokens)
    return Candidates(found.tokens, ids, found.log_probs, found.parents)


def in_open_places(beams: BeamState, candidates: Candidates) -> Candidates:
    """Limit the candidates to the number of slots not taken by finished hypotheses."""
    is_finished = ops.cast(beams.finished_scores > LOWEST, "int32")  # (batch, beams)
    num_open = is_finished.shape[1] - ops.sum(is_finished, axis=1, keepdims=True)  # (batch, 1)
    is_open = ops.arange(ops.shape(candidates.log_probs)[1]) < num_open  # (batch, candidates)
    return candidates._replace(log_probs=ops.where(is_open, candidates.log_probs, NEVER))


def merge_finished(
    beams: BeamState,
    candidates: Candidates,
    lengths: Tensor,
    alpha: float,
    special_tokens: SpecialTokens,
    form: str,
    num_ending: int,
) -> tuple[Tensor, Tensor]:
    """Merge ending candidates, among the first `num_ending`, into the pool; return ids and scores.

    `lengths`, () or (batch,), are the lengths of the ending candidates.
    """
    candidates = Candidates(*(values[:, :num_ending] for values in candidates))
    penalty = penalty_of(ops.reshape(ops.cast(lengths, "float32"), (-1, 1)), alpha, form)
    has_ended = candidates.tokens == special_tokens.eos  # (batch, candidates)
    scores = ops.where(has_ended, candidates.log_probs / penalty, NEVER)  # (batch, candidates)
    scores = ops.concatenate([beams.finished_scores, scores], axis=1)  # (batch, beams + candidates)
    ids = ops.concatenate([beams.finished_ids, candidates.ids], axis=1)  # (..., length)
    scores, places = stable_top_k(scores, beams.finished_ids.shape[1])  # (batch, beams)
    return choose(ids, places), scores


def keep_live(candidates: Candidates, beam_size: int, special_tokens: SpecialTokens) -> Candidates:
    """Return the best candidates that continue, with shape (batch, beams, ...)."""
    has_ended = candidates.tokens == special_tokens.eos  # (batch, candidates)
    log_probs = ops.where(has_ended, NEVER, candidates.log_probs)  # (batch, candidates)
    log_probs, places = stable_top_k(log_probs, beam_size)  # (batch, beams)
    return Candidates(
        tokens=choose(candidates.tokens, places),
        ids=choose(candidates.ids, places),
        log_probs=log_probs,
        parents=choose(candidates.parents, places),
    )


def beam_search_of_alphas(
    step: Step,
    state: Any,
    *,
    batch_size: Tensor,
    beam_size: int,
    alphas: Sequence[float],
    limits: Tensor,
    special_tokens: SpecialTokens,
    max_length: Tensor,
    length_penalty: str = "gnmt",
    vocabulary_size: int | None = None,
    constraints: Sequence[Constraint] = (),
    with_xla: bool = False,
    logit_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Search for the best output of each sentence for each of several length penalties.

    The results match separate calls to `beam_search` with `ending="any"` for each alpha, at about
    the cost of a single call. The live hypotheses do not depend on alpha, which only ranks finished
    hypotheses. The search for a sentence stops as soon as all its results are final.

    Args:
        step, state: see `beam_search`.
        batch_size: int or int32 scalar, number of sentences.
        beam_size: number of hypotheses per sentence.
        alphas: one or more exponents of the length penalty.
        limits: int32 (batch,), maximum number of output tokens per sentence, excluding EOS.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        max_length: int or int32 scalar, at least the largest of `limits`.
        length_penalty: form of the penalty, "gnmt" or "power" (see `decoding.length_penalty`).
        vocabulary_size: number of tokens. Logits beyond this number are vocabulary padding, which
            is never produced. If None, every logit belongs to a token.
        constraints, with_xla, logit_tokens: see `beam_search`.

    Returns:
        `(ids, scores)`, in the order of `alphas`. `ids`, int32 (batch, alphas, max_length + 1),
        contains the output tokens without BOS, followed by EOS and padding. `scores`, float32
        (batch, alphas), contains natural-log probabilities, including EOS, divided by
        `length_penalty`.

    Raises:
        ValueError: `alphas` is empty or contains an invalid value, `beam_size` is not a
            positive integer, `length_penalty` is unknown, or `max_length` is less than a limit.

    Example:
        >>> import keras
        >>> from keras_transformer.types import SpecialTokens
        >>> table = keras.ops.log([[0.1, 0.1, 0.2, 0.6], [0.1, 0.1, 0.3, 0.5]])
        >>> def step(tokens, index, state):  # token 3 is likely, EOS (2) less so
        ...     row = keras.ops.cast(tokens == 3, "int32")
        ...     return keras.ops.take(table, row, axis=0), state
        >>> ids, scores = beam_search_of_alphas(
        ...     step, (), batch_size=1, beam_size=2, alphas=[0.0, 4.0], limits=[2],
        ...     special_tokens=SpecialTokens(), max_length=2,
        ... )
        >>> keras.ops.convert_to_numpy(ids).tolist()
        [[[2, 0, 0], [3, 3, 2]]]
        >>> print(keras.ops.convert_to_numpy(scores).round(2))
        [[-1.61 -0.76]]
    """
    check_alphas(alphas, beam_size=beam_size, length_penalty=length_penalty)
    limits = checked_limits(limits, max_length)
    rules = OutputRules(
        limits, special_tokens, vocabulary_size, constraints, logit_tokens=logit_tokens
    )

    def penalties(lengths: Tensor) -> Tensor:
        """Compute the penalty for each of n lengths and each alpha: (n, alphas)."""
        lengths = ops.cast(lengths, "float32")
        # One power per alpha, as in `beam_search`, because powers of arrays may round differently.
        columns = [penalty_of(lengths, float(alpha), length_penalty) for alpha in alphas]
        return ops.stack(columns, axis=-1)

    def advance(beams: BeamState, rows: Tensor | None) -> BeamState:
        logits, model_state = step(beams.tokens, beams.index, beams.model_state)
        candidates = expand(beams, logits, rules.of_sentences(rows))
        has_ended = candidates.tokens == special_tokens.eos  # (batch, candidates)
        ended = candidates._replace(log_probs=ops.where(has_ended, candidates.log_probs, NEVER))
        finished = keep_best(beams, ended, penalties(ops.reshape(beams.index + 1, (1,))))
        live = keep_live(candidates, beam_size, special_tokens)
        return after_step(beams, live, *finished, model_state)

    def is_open(beams: BeamState, rows: Tensor | None) -> Tensor:
        limits = rules.of_sentences(rows).limits
        # The same bound as in `should_continue`, for each alpha.
        best_possible = beams.live_log_probs[:, :1] / penalties(limits + 1)  # (batch, alphas)
        can_improve = ops.any(beams.finished_scores < best_possible, axis=1)
        return ops.logical_and(can_improve, beams.index <= limits)

    return search_loop(
        advance,
        is_open,
        lambda beams: (beams.finished_ids, beams.finished_scores),
        start(state, batch_size, beam_size, max_length, special_tokens, num_finished=len(alphas)),
        rules.limits,
        may_leave=rules.know_their_sentences(),
        with_xla=with_xla,
    )


def check_alphas(alphas: Sequence[float], **options: Any) -> None:
    """Require at least one alpha, each valid in `SearchOptions` with the other options."""
    if not len(alphas):
        refuse("alphas", "contain at least one number", alphas)
    for alpha in alphas:
        SearchOptions(alpha=alpha, **options)  # validates the options


def keep_best(beams: BeamState, ended: Candidates, penalties: Tensor) -> tuple[Tensor, Tensor]:
    """Update the best output for each alpha after a step: ids (batch, alphas, length), scores.

    `ended` contains -inf for candidates that continue; `penalties` is (1, alphas). If scores are
    equal, the earlier output is kept, as in `beam_search.merge_finished`.
    """
    scores = ops.expand_dims(ended.log_probs, 1) / ops.expand_dims(penalties, 2)
    scores = ops.concatenate([ops.expand_dims(beams.finished_scores, 2), scores], axis=2)
    scores, places = stable_top_k(scores, 1)  # (batch, alphas, 1), of 1 + candidates
    is_new = places > 0
    new_ids = choose(ended.ids, ops.maximum(places[..., 0] - 1, 0))
    return ops.where(is_new, new_ids, beams.finished_ids), scores[..., 0]

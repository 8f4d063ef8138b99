"""One beam search for the best outputs under each of several length penalties.

Axes in the shape comments, besides the axes of `decoding.beam_search`:
    alphas       exponents of the length penalty, each with a pool of one place
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_transformer.decoding.autoregression import Step
from keras_transformer.decoding.beam_search import (
    BeamState,
    Candidates,
    after_step,
    expand,
    keep_live,
    start,
)
from keras_transformer.decoding.constraints import Constraint
from keras_transformer.decoding.hypothesis_arrays import choose, stable_top_k
from keras_transformer.decoding.length_penalty import length_penalty as penalty_of
from keras_transformer.decoding.next_tokens import NEVER, OutputRules, checked_limits
from keras_transformer.decoding.sentence_loop import search_loop
from keras_transformer.errors import refuse
from keras_transformer.search_options import SearchOptions
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor


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
    """Search for the best output of each sentence under each of several length penalties.

    The results are the same as from `beam_search` with `ending="any"`, called once for each alpha,
    at about the cost of one call: the live hypotheses do not depend on alpha, which only ranks
    hypotheses that have ended. The search for a sentence stops as soon as all its results are
    final.

    Args:
        step, state: as in `beam_search`.
        batch_size: int or int32 scalar, number of sentences.
        beam_size: number of hypotheses per sentence.
        alphas: exponents of the length penalty, at least one.
        limits: int32 (batch,), maximum number of output tokens of each sentence, EOS excluded.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        max_length: int or int32 scalar, at least the largest of `limits`.
        length_penalty: form of the penalty, "gnmt" or "power" (see `decoding.length_penalty`).
        vocabulary_size: number of tokens; further logits are padding of the vocabulary, which is
            never produced. None: every logit is a token's.
        constraints, with_xla, logit_tokens: as in `beam_search`.

    Returns:
        `(ids, scores)` in the order of `alphas`: int32 (batch, alphas, max_length + 1), without
        BOS, with EOS, then padding; float32 (batch, alphas), the natural-log probability divided by
        `length_penalty`, EOS included.

    Raises:
        ValueError: `alphas` is empty or contains a value that breaks its rule, `beam_size` is not a
            positive integer, `length_penalty` is unknown, or `max_length` is less than a limit.

    Example:
        >>> import keras
        >>> from keras_transformer.special_tokens import SpecialTokens
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
        """The penalty of each alpha at lengths (n,): (n, alphas)."""
        lengths = ops.cast(lengths, "float32")
        # A power for each alpha, as in `beam_search`: a power of arrays may round differently.
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
        # The bound of `should_continue`, for each alpha.
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
    """Require at least one alpha; `SearchOptions` must accept each together with the options."""
    if not len(alphas):
        refuse("alphas", "have at least one number", alphas)
    for alpha in alphas:
        SearchOptions(alpha=alpha, **options)  # checks them


def keep_best(beams: BeamState, ended: Candidates, penalties: Tensor) -> tuple[Tensor, Tensor]:
    """The best output of each alpha after a step: ids (batch, alphas, length), scores.

    `ended` has -inf where a candidate continues; `penalties` is (1, alphas). If scores are equal,
    the earlier output stays, as in `beam_search.merge_finished`.
    """
    scores = ops.expand_dims(ended.log_probs, 1) / ops.expand_dims(penalties, 2)
    scores = ops.concatenate([ops.expand_dims(beams.finished_scores, 2), scores], axis=2)
    scores, places = stable_top_k(scores, 1)  # (batch, alphas, 1), of 1 + candidates
    is_new = places > 0
    new_ids = choose(ended.ids, ops.maximum(places[..., 0] - 1, 0))
    return ops.where(is_new, new_ids, beams.finished_ids), scores[..., 0]

"""Select next-token candidates from logits, the first part of every search step.

Axes in the shape comments:
    batch        sentences
    outputs      outputs per sentence
    length       `max_length` + 1 output positions
"""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from keras import ops

from keras_transformer.argument_checks import is_integer
from keras_transformer.decoding.constraints import (
    Constraint,
    ForAllSentences,
    LimitedRepeats,
    MinimumLength,
    NoRepeatNgrams,
    OfLogits,
    WithoutUnknown,
    allowed_by,
)
from keras_transformer.decoding.sentence_loop import (
    choose,
    empty_ids,
    search_loop,
    stable_top_k,
    write_at,
)
from keras_transformer.errors import refuse
from keras_transformer.installation import has_accelerator
from keras_transformer.search_options import SearchOptions
from keras_transformer.types import SpecialTokens, Tensor

NEVER = -float("inf")  # log-probability of tokens that must not be chosen
LOWEST = -1e30  # log-probabilities are higher, except for NEVER, which LiteRT makes finite
FEW = 2048  # values per row; for shorter rows, a plain top-k is just as fast


def checked_limits(limits: Any, max_length: Any) -> Tensor:
    """Return limits (batch,) as int32; raise an error if a known limit exceeds `max_length`."""
    is_known = isinstance(limits, (list, tuple, np.ndarray)) and is_integer(max_length)
    if is_known and np.max(limits, initial=0) > max_length:
        rule = "be at least the largest of `limits`"
        refuse("max_length", rule, max_length, largest=int(np.max(limits)))
    return ops.cast(limits, "int32")


class RepetitionPenalty(ForAllSentences):
    """Scales the log-probability of tokens already in an output without forbidding them.

    Args:
        penalty: number > 0; values above 1 make repeated tokens less probable.
        vocabulary_size: number of logits.

    Reference:
        Keskar et al., "CTRL: A Conditional Transformer Language Model for Controllable
        Generation", 2019, section 4.1. Matches beam search in Hugging Face Transformers.
    """

    def __init__(self, penalty: float, vocabulary_size: int) -> None:
        self.penalty = penalty
        self.is_new = NoRepeatNgrams(1, vocabulary_size)

    def __call__(self, ids: Tensor, index: Tensor) -> Tensor:
        return ops.ones((1, 1, 1), dtype="bool")

    def penalized(
        self, ids: Tensor, index: Tensor, logits: Tensor, logit_tokens: Tensor | None
    ) -> Tensor:
        """Return the logits (batch, beams, logits), with the factor applied to repeated tokens.

        The factor applies to log-probabilities, that is, the logits minus the log-sum-exp of the
        given logits.
        """
        is_new = self.is_new if logit_tokens is None else OfLogits(self.is_new, logit_tokens)
        totals = ops.logsumexp(logits, axis=-1, keepdims=True)  # (batch, beams, 1)
        repeated = totals + self.penalty * (logits - totals)
        return ops.where(is_new(ids, index), logits, repeated)


def constraints_of(
    options: SearchOptions, special_tokens: SpecialTokens, vocabulary_size: int, source_ids: Tensor
) -> list[Constraint]:
    """Create the constraints for the given search options, strongest first."""
    found: list[Constraint] = []
    if options.min_length:
        found.append(MinimumLength(options.min_length, special_tokens, vocabulary_size))
    if not options.allow_unknown:
        found.append(WithoutUnknown(special_tokens, vocabulary_size))
    if options.no_repeat_ngram:
        found.append(NoRepeatNgrams(options.no_repeat_ngram, vocabulary_size))
    if options.repetition_penalty != 1:
        found.append(RepetitionPenalty(options.repetition_penalty, vocabulary_size))
    if options.max_repeats:
        pad = special_tokens.pad
        found.append(LimitedRepeats.of(options.max_repeats, source_ids, pad, vocabulary_size))
    return found


class OutputRules(NamedTuple):
    """Rules that determine which tokens a search may produce.

    Args:
        limits: int32 (batch,), maximum number of output tokens per sentence, excluding EOS. An
            output that reaches its limit ends with EOS, regardless of the constraints.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        vocabulary_size: number of tokens; ids greater than or equal to this number are never
            produced. Defaults to the number of logits.
        constraints: constraints, strongest first; see `decoding.constraints`.
        end_is_free: whether EOS at the limit leaves the log-probability of a hypothesis unchanged.
        logit_tokens: int32 (logits,), the token of each logit, in ascending order; a logit of -inf
            marks a token that a sentence cannot use. If None, logit i belongs to token i. Requires
            `vocabulary_size`.
    """

    limits: Tensor
    special_tokens: SpecialTokens
    vocabulary_size: int | None = None
    constraints: Sequence[Constraint] = ()
    end_is_free: bool = False
    logit_tokens: Tensor | None = None

    def know_their_sentences(self) -> bool:
        """Return whether all constraints support `of_sentences`; custom constraints may not."""
        return all(hasattr(constraint, "of_sentences") for constraint in self.constraints)

    def of_sentences(self, rows: Tensor | None) -> "OutputRules":
        """Return the rules for some sentences of the batch, int32 (n,), or for all if None."""
        if rows is None:
            return self
        constraints: Any = self.constraints
        return self._replace(
            limits=ops.take(self.limits, rows, axis=0),
            constraints=[constraint.of_sentences(rows) for constraint in constraints],
        )

    def without_guards(self) -> tuple["OutputRules", list[LimitedRepeats]]:
        """Separate the guards against loops from the rules, and return both."""
        guards = [each for each in self.constraints if isinstance(each, LimitedRepeats)]
        others = [each for each in self.constraints if not isinstance(each, LimitedRepeats)]
        return self._replace(constraints=others), guards

    def must_end(self, index: Tensor) -> Tensor:
        """Return whether position `index` must be EOS: bool (batch, 1, 1)."""
        return ops.reshape(index >= self.limits, (-1, 1, 1))

    def is_output(self, tokens: Tensor) -> Tensor:
        """Return whether each token can ever be produced, in the shape of `tokens`."""
        is_output = ops.logical_and(
            tokens != self.special_tokens.pad, tokens != self.special_tokens.bos
        )
        if self.vocabulary_size is not None:
            is_output = ops.logical_and(is_output, tokens < self.vocabulary_size)
        return is_output

    def may_follow(self, ids: Tensor, index: Tensor, logits: Tensor) -> Tensor:
        """Return whether constraints and limits allow each logit's token at position `index`.

        Args:
            ids: int32 (batch, beams, length), filled up to `index` (exclusive).
            index: int32 scalar.
            logits: float tensor (batch, beams, logits).

        Returns:
            Bool tensor that broadcasts to the shape of `logits`, with at least one True per row.
        """
        tokens, constraints = self.logit_tokens, self.constraints
        if tokens is None:
            tokens = ops.arange(logits.shape[-1], dtype="int32")  # (vocabulary,)
            is_allowed = ops.reshape(self.is_output(tokens), (1, 1, -1))  # (1, 1, vocabulary)
        else:
            is_allowed = logits > LOWEST
            constraints = [
                each.of_logits(tokens)
                if isinstance(each, LimitedRepeats)
                else OfLogits(each, tokens)
                for each in constraints
            ]
        is_allowed = allowed_by(constraints, ids, index, is_allowed)
        return ops.where(self.must_end(index), tokens == self.special_tokens.eos, is_allowed)

    def possible(self, ids: Tensor, index: Tensor, logits: Tensor) -> Tensor:
        """Return float32 logits with -inf for tokens that are not allowed at position `index`."""
        may_follow = self.may_follow(ids, index, logits)
        for constraint in self.constraints:
            if isinstance(constraint, RepetitionPenalty):
                logits = constraint.penalized(ids, index, logits, self.logit_tokens)
        return ops.where(may_follow, logits, NEVER)

    def logits_of_eos(self, logits: Tensor) -> Tensor:
        """Return the logits of EOS: (batch, beams)."""
        eos = self.special_tokens.eos
        if self.logit_tokens is None:
            return logits[..., eos]
        place = ops.argmax(ops.cast(self.logit_tokens == eos, "int32"))  # the first match
        return ops.take(logits, place, axis=-1)

    def places_of(self, tokens: Tensor) -> Tensor:
        """Return the logit of each token, in the shape of `tokens`, which must have a logit."""
        if self.logit_tokens is None:
            return tokens
        # LiteRT does not support `searchsorted`.
        numbers = ops.arange(ops.shape(self.logit_tokens)[0], dtype="int32")
        is_new = ops.pad(self.logit_tokens[1:] != self.logit_tokens[:-1], [[1, 0]])
        numbers = ops.where(is_new, numbers, 0)  # the first of equal tokens
        rows = ops.expand_dims(self.logit_tokens, 1)
        return ops.take(ops.scatter(rows, numbers, (self.vocabulary_size,)), tokens)


class Extensions(NamedTuple):
    """Hypotheses extended by one token each, best first within each sentence."""

    log_probs: Tensor  # (batch, count), natural logarithms; -inf marks a missing extension
    tokens: Tensor  # (batch, count)
    parents: Tensor  # (batch, count) beam index of the extended hypothesis


def best_extensions(
    logits: Tensor,
    log_probs: Tensor,
    count: int,
    ids: Tensor,
    index: Tensor,
    rules: OutputRules,
) -> Extensions:
    """Find the most probable one-token extensions of each sentence's hypotheses.

    Extensions never contain padding, BOS, vocabulary padding or tokens that a constraint forbids.
    These tokens keep their share of the probability, so scores match those of the model. They are
    dropped after the top-k, which reads the logits once without copying them; only constraints
    other than `LimitedRepeats` require a mask of the logits.

    Args:
        logits: float tensor (batch, beams, vocabulary), unnormalized.
        log_probs: float32 (batch, beams), log-probabilities of the hypotheses.
        count: number of extensions.
        ids: int32 (batch, beams, length), the hypotheses, filled up to `index` (exclusive).
        index: int32 scalar, the position of the next token.
        rules: the `OutputRules`.

    Returns:
        The `count` best `Extensions`. Ties are broken in favor of the earlier hypothesis, then the
        lower token.
    """
    logits, possible, maxima, totals, rules, guards = _prepared(logits, ids, index, rules)

    most = count
    if rules.logit_tokens is None:
        beams, num_logits = logits.shape[1:]
        vocabulary_size = num_logits if rules.vocabulary_size is None else rules.vocabulary_size
        num_never = 2 + num_logits - vocabulary_size  # these may be among the best
        num_never += sum(guard.most_forbidden for guard in guards)
        most = min(count + beams * num_never, beams * num_logits)
    best, tokens, parents = top_k_of_rows(possible, maxima, log_probs, totals, most)
    if rules.logit_tokens is None:
        best = ops.where(rules.is_output(tokens), best, NEVER)
        for guard in guards:
            best = _without_loops(best, tokens, parents, *guard.forbidden(ids, index))
    else:
        tokens = ops.take(rules.logit_tokens, tokens)
    best, places = _padded_top_k(best, count)
    tokens, parents = (choose(of, places) for of in (tokens, parents))

    eos, must_end = rules.special_tokens.eos, ops.reshape(rules.must_end(index), (-1, 1))
    end_log_probs = 0.0 if rules.end_is_free else rules.logits_of_eos(logits) - totals
    ends, ending = _padded_top_k(log_probs + end_log_probs, count)
    return Extensions(
        log_probs=ops.where(must_end, ends, best),
        tokens=ops.where(must_end, eos, tokens),
        parents=ops.where(must_end, ending, parents),
    )


def _prepared(logits: Tensor, ids: Tensor, index: Tensor, rules: OutputRules) -> tuple[Any, ...]:
    """Return what both functions need to find extensions.

    Returns:
        `(logits, possible, maxima, totals, rules, guards)`: the float32 logits; the same with -inf
        for tokens that constraints other than guards forbid; `maxima_of_blocks(possible)`; the
        log-sum-exp, (batch, beams); and the rules without the guards, which are applied afterwards.
    """
    logits = possible = ops.cast(logits, "float32")
    rules, guards = rules.without_guards() if rules.logit_tokens is None else (rules, [])
    if rules.constraints:
        possible = rules.possible(ids, index, logits)
    maxima = maxima_of_blocks(possible)
    totals = log_of_sum(logits, None if rules.constraints else maxima)
    return logits, possible, maxima, totals, rules, guards


def extensions_of_each(
    logits: Tensor,
    log_probs: Tensor,
    count: int,
    ids: Tensor,
    index: Tensor,
    rules: OutputRules,
    required: Tensor,
    is_forced: Tensor,
) -> tuple[Tensor, Tensor]:
    """Find the most probable extensions of each hypothesis, and those by required tokens.

    Args:
        logits, log_probs, ids, index, rules: see `best_extensions`.
        count: number of extensions of each hypothesis.
        required: int32 (batch, beams, n), tokens whose extensions are found too, however
            improbable, including EOS; -1 for none.
        is_forced: bool (batch, beams), whether constraints do not apply to the required tokens.

    Returns:
        `(log_probs, tokens)`, both (batch, beams, count + n) or more: float32 and int32, each
        extension once, in any order. A log-probability of -inf marks a missing extension.
    """
    logits, possible, maxima, totals, rules, guards = _prepared(logits, ids, index, rules)
    beams, num_logits = ops.shape(log_probs)[1], logits.shape[2]
    if rules.logit_tokens is None:
        num_never = 2 + num_logits - (rules.vocabulary_size or num_logits)
        num_never += sum(guard.most_forbidden for guard in guards)
        count = min(count + num_never, num_logits)
    best, tokens, _ = top_k_of_rows(
        ops.reshape(possible, (-1, 1, num_logits or ops.shape(logits)[2])),
        None if maxima is None else ops.reshape(maxima, (-1, 1, maxima.shape[2])),
        ops.reshape(log_probs, (-1, 1)),
        ops.reshape(totals, (-1, 1)),
        count,
    )
    best, tokens = (ops.reshape(each, (-1, beams * count)) for each in (best, tokens))
    if rules.logit_tokens is None:
        best = ops.where(rules.is_output(tokens), best, NEVER)
        parents = ops.repeat(ops.arange(beams, dtype="int32"), count)
        parents = ops.broadcast_to(parents, ops.shape(tokens))
        for guard in guards:
            best = _without_loops(best, tokens, parents, *guard.forbidden(ids, index))
    else:
        tokens = ops.take(rules.logit_tokens, tokens)
    best, tokens = (ops.reshape(each, (-1, beams, count)) for each in (best, tokens))

    places = rules.places_of(ops.maximum(required, 0))
    allowed = _logits_at(places, possible)
    if rules.constraints:
        forced = _logits_at(places, logits)
        allowed = ops.where(ops.expand_dims(is_forced, 2), forced, allowed)
    scores = ops.expand_dims(log_probs, 2) + (allowed - ops.expand_dims(totals, 2))
    must_end = rules.must_end(index)  # (batch, 1, 1)
    is_eos = required == rules.special_tokens.eos
    ends = 0.0 if rules.end_is_free else rules.logits_of_eos(logits) - totals
    ends = ops.where(is_eos, ops.expand_dims(log_probs + ends, 2), NEVER)
    scores = ops.where(must_end, ends, ops.where(required >= 0, scores, NEVER))

    is_required = ops.expand_dims(tokens, 3) == ops.expand_dims(required, 2)
    is_other = ops.logical_not(ops.logical_or(ops.any(is_required, axis=3), must_end))
    best = ops.where(is_other, best, NEVER)
    return (
        ops.concatenate([best, scores], axis=2),
        ops.concatenate([tokens, required], axis=2),
    )


def _logits_at(places: Tensor, logits: Tensor) -> Tensor:
    """Return the logits of each hypothesis at `places` (batch, beams, n)."""
    shape = ops.shape(places)
    rows = ops.reshape(logits, (-1, logits.shape[2] or ops.shape(logits)[2]))
    return ops.reshape(choose(rows, ops.reshape(places, (-1, shape[2]))), shape)


def _without_loops(
    best: Tensor, tokens: Tensor, parents: Tensor, forbidden: Tensor, are_forbidden: Tensor
) -> Tensor:
    """Set the log-probabilities of forbidden extensions to -inf, unless all would be forbidden.

    The last two arguments come from `LimitedRepeats.forbidden`; the others are (batch, extensions).
    """
    forbidden = choose(ops.where(are_forbidden, forbidden, -1), parents)  # (batch, extensions, n)
    is_loop = ops.any(forbidden == ops.expand_dims(tokens, 2), axis=2)
    left = ops.where(is_loop, NEVER, best)
    return ops.where(ops.any(left > LOWEST, axis=1, keepdims=True), left, best)


def _padded_top_k(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`stable_top_k` of values (batch, size), padded with -inf at index 0 if `k` exceeds `size`."""
    size = values.shape[1]
    if size == 1:
        best, places = values, ops.zeros_like(values, dtype="int32")
    else:
        best, places = stable_top_k(values, min(k, size))
    if k > size:
        best = ops.pad(best, ((0, 0), (0, k - size)), constant_values=NEVER)
        places = ops.pad(places, ((0, 0), (0, k - size)))
    return best, places


def maxima_of_blocks(values: Tensor) -> Tensor | None:
    """Return the maxima (batch, rows, blocks) of blocks of float values (batch, rows, size).

    All blocks have the same size, close to the square root of `size`. Returns None if `size` has no
    such divisor or there are few values.
    """
    rows, size = ops.shape(values)[1], values.shape[2]
    block = None if size is None else _block_size(size)
    if block is None:
        return None
    maxima = ops.max(ops.reshape(values, (-1, block)), axis=-1)
    return ops.reshape(maxima, (-1, rows, size // block))


def top_k_of_rows(
    values: Tensor, maxima: Tensor | None, offsets: Tensor, totals: Tensor, k: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Find the k largest `offsets + (values - totals)` across all rows of each sentence.

    The k largest values are in the k blocks with the largest maxima; searching only these blocks is
    several times faster than a top-k over thousands of values. The first of equal values wins,
    because the selected blocks are sorted by index.

    Args:
        values: float32 (batch, rows, size).
        maxima: the result of `maxima_of_blocks`.
        offsets, totals: float32 (batch, rows).
        k: number of values, at most `rows * size`.

    Returns:
        `(best, columns, rows)`, all (batch, k): the float32 values, largest first, and their int32
        positions.
    """
    rows, size = values.shape[1], ops.shape(values)[2]
    number = size if maxima is None else maxima.shape[2]
    if maxima is None or k > rows * number:
        scores = ops.expand_dims(offsets, 2) + (values - ops.expand_dims(totals, 2))
        # With a known batch size, the state of the loop has a known shape too.
        scores = ops.reshape(scores, (values.shape[0] or -1, rows * size))
        best, places = stable_top_k(scores, k)
        return best, *_columns_and_rows(places, size, rows)

    block = size // number
    scores = ops.expand_dims(offsets, 2) + (maxima - ops.expand_dims(totals, 2))
    _, chosen = stable_top_k(ops.reshape(scores, (-1, rows * number)), k)
    chosen = ops.sort(chosen, axis=1)  # (batch, k), block indices
    sentences = ops.arange(ops.shape(chosen)[0], dtype="int32") * (rows * number)
    blocks = ops.reshape(ops.expand_dims(sentences, 1) + chosen, (-1,))
    candidates = ops.take(ops.reshape(values, (-1, block)), blocks, axis=0)
    candidates = ops.reshape(candidates, (-1, k, block))
    if rows > 1:
        offsets, totals = (choose(of, chosen // number) for of in (offsets, totals))
    candidates = ops.expand_dims(offsets, 2) + (candidates - ops.expand_dims(totals, 2))
    best, blocks, columns = _top_k_of_blocks(candidates, k)
    places = choose(chosen, blocks) * block + columns
    return best, *_columns_and_rows(places, size, rows)


def _columns_and_rows(places: Tensor, size: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Split indices into the values of all rows, without the cost of a division for one row."""
    return (places, ops.zeros_like(places)) if rows == 1 else (places % size, places // size)


def _top_k_of_blocks(values: Tensor, k: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the k largest of (batch, blocks, size), with blocks and columns, all (batch, k)."""
    number, size = values.shape[1:]
    if not has_accelerator():
        best, places = stable_top_k(ops.reshape(values, (-1, number * size)), k)
        return best, places // size, places % size
    # On a GPU, top-k over one long row takes several times longer than over many short rows.
    most = min(k, size)
    values, columns = stable_top_k(values, most)
    best, places = stable_top_k(ops.reshape(values, (-1, number * most)), k)
    columns = choose(ops.reshape(columns, (-1, number * most)), places)
    return best, places // most, columns


def _block_size(size: int) -> int | None:
    """Return the divisor of `size` closest to its square root, within a factor of 4, or None."""
    root = math.sqrt(size)
    divisors = [block for block in range(2, size) if size % block == 0] if size >= FEW else []
    near = [block for block in divisors if root / 4 <= block <= 4 * root]
    return min(near, key=lambda block: abs(math.log(block / root)), default=None)


def log_of_sum(logits: Tensor, maxima: Tensor | None = None) -> Tensor:
    """Compute the log-sum-exp of float32 logits (batch, rows, size).

    The result is derived from the largest logit and its probability, because softmax is a single
    fused pass on every backend.

    Args:
        logits: the logits.
        maxima: the result of `maxima_of_blocks`, if known; speeds up finding the largest logit.

    Returns:
        float32 (batch, rows).
    """
    probs = ops.softmax(logits, axis=-1)
    if maxima is None:
        return ops.max(logits, axis=-1) - ops.log(ops.max(probs, axis=-1))
    rows, number = ops.shape(maxima)[1], maxima.shape[2]
    # Keras's argmax of floats needs an operation that LiteRT lacks.
    places = ops.reshape(ops.cast(ops.top_k(maxima, 1)[1], "int32"), (-1,))
    places = places + ops.arange(ops.shape(places)[0], dtype="int32") * number
    probs = ops.take(ops.reshape(probs, (-1, logits.shape[2] // number)), places, axis=0)
    probs = ops.reshape(ops.max(probs, axis=-1), (-1, rows))
    return ops.max(maxima, axis=-1) - ops.log(probs)


# `(tokens, index, state) -> (logits, state)`, see `beam_search`.
Step = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]


class GenerationState(NamedTuple):
    """The state between two generation steps."""

    index: Tensor  # () position of `tokens` in the decoder input, where BOS is at 0
    tokens: Tensor  # (batch, outputs) last token of each output; EOS after the output ends
    ids: Tensor  # (batch, outputs, length)
    log_probs: Tensor  # (batch, outputs)
    model_state: Any  # nest of (batch, outputs, ...)


def generate(
    step: Step,
    state: Any,
    choose_next: Callable[[Tensor, Tensor, Tensor, OutputRules], tuple[Tensor, Tensor]],
    rules: OutputRules,
    *,
    batch_size: Tensor,
    num_outputs: Tensor,
    max_length: Tensor,
    may_leave: bool,
    with_xla: bool,
) -> tuple[Tensor, Tensor]:
    """Append the chosen token to every output until all outputs have ended.

    Args:
        step, state: see `beam_search`, with `num_outputs` instead of beams.
        choose_next: callable `(logits, ids, index, rules) -> (tokens, log_probs)`. Its arguments
            are the logits (batch, num_outputs, vocabulary), the ids before position `index` and the
            rules for the sentences. It returns the tokens at `index` and their log-probabilities,
            both (batch, num_outputs).
        rules: the `OutputRules`.
        batch_size, num_outputs: ints or int32 scalars.
        max_length: int or int32 scalar, maximum number of output tokens, excluding EOS.
        may_leave: whether sentences may leave the batch when their outputs have ended. If so, every
            tensor of `state` must be (batch, ...).
        with_xla: see `beam_search`.

    Returns:
        `(ids, log_probs)`: int32 (batch, num_outputs, max_length + 1), without BOS, with EOS, then
        padding; natural-log probabilities, float32 (batch, num_outputs), including EOS.
    """
    special_tokens = rules.special_tokens
    eos = special_tokens.eos

    def advance(outputs: GenerationState, rows: Tensor | None) -> GenerationState:
        logits, model_state = step(outputs.tokens, outputs.index, outputs.model_state)
        tokens, log_probs = choose_next(
            logits, outputs.ids, outputs.index, rules.of_sentences(rows)
        )
        has_ended = outputs.tokens == eos  # (batch, outputs)
        written = ops.where(has_ended, special_tokens.pad, tokens)  # (batch, outputs)
        return GenerationState(
            index=outputs.index + 1,
            tokens=ops.where(has_ended, eos, tokens),
            ids=write_at(outputs.ids, outputs.index, written),
            log_probs=outputs.log_probs + ops.where(has_ended, 0.0, log_probs),
            model_state=model_state,
        )

    shape = (batch_size, num_outputs)
    outputs = GenerationState(
        index=ops.zeros((), dtype="int32"),
        tokens=ops.full(shape, special_tokens.bos, dtype="int32"),
        ids=empty_ids(shape, max_length, special_tokens),
        log_probs=ops.zeros(shape, dtype="float32"),
        model_state=state,
    )
    return search_loop(
        advance,
        lambda outputs, rows: ops.any(outputs.tokens != eos, axis=1),
        lambda outputs: (outputs.ids, outputs.log_probs),
        outputs,
        rules.limits,
        may_leave=may_leave and rules.know_their_sentences(),
        with_xla=with_xla,
    )

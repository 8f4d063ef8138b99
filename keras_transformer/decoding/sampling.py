"""Decoding with a single hypothesis: greedy search and sampling.

Axes in the shape comments:
    batch        sentences
    samples      outputs per sentence
    vocabulary   logits
    n            candidates: the entire vocabulary or the `top_k` most probable tokens
"""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_transformer.argument_checks import (
    check_positive_int,
    check_positive_number,
    is_integer,
    is_number,
)
from keras_transformer.decoding.constraints import Constraint
from keras_transformer.decoding.next_tokens import (
    OutputRules,
    Step,
    best_extensions,
    checked_limits,
    generate,
)
from keras_transformer.decoding.sentence_loop import choose, stable_top_k
from keras_transformer.errors import refuse
from keras_transformer.types import SpecialTokens, Tensor


def greedy_search(
    step: Step,
    state: Any,
    *,
    batch_size: Tensor,
    limits: Tensor,
    special_tokens: SpecialTokens,
    max_length: Tensor,
    vocabulary_size: int | None = None,
    constraints: Sequence[Constraint] = (),
    with_xla: bool = False,
    logit_tokens: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Choose the most probable token at each position until EOS.

    Args:
        step, state: see `beam_search`, with one beam.
        batch_size: int or int32 scalar, number of sentences.
        limits: int32 (batch,), maximum number of output tokens per sentence, excluding EOS. An
            output that reaches its limit ends with EOS.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        max_length: int or int32 scalar, at least the largest of `limits`.
        vocabulary_size: number of tokens. Logits beyond this number are vocabulary padding, which
            is never produced. If None, every logit belongs to a token.
        constraints: callables, strongest first; see `decoding.constraints`. If no token satisfies
            all constraints, conflicting later ones are ignored. The limit overrides them all.
        with_xla, logit_tokens: see `beam_search`.

    Returns:
        `(ids, log_probs)`: int32 (batch, max_length + 1), without BOS, with EOS, then padding;
        natural-log probabilities, float32 (batch,), including EOS.

    Raises:
        ValueError: `max_length` is less than a limit.

    Example:
        >>> import keras
        >>> from keras_transformer.types import SpecialTokens
        >>> table = keras.ops.log([[0.1, 0.1, 0.2, 0.6], [0.1, 0.1, 0.5, 0.3]])
        >>> def step(tokens, index, state):  # token 3 is likely after BOS (1), EOS (2) after 3
        ...     row = keras.ops.cast(tokens == 3, "int32")
        ...     return keras.ops.take(table, row, axis=0), state
        >>> ids, log_probs = greedy_search(
        ...     step, (), batch_size=1, limits=[2], special_tokens=SpecialTokens(), max_length=2
        ... )
        >>> keras.ops.convert_to_numpy(ids).tolist()
        [[3, 2, 0]]
        >>> print(keras.ops.convert_to_numpy(keras.ops.exp(log_probs)).round(4))
        [0.3]
    """
    limits = checked_limits(limits, max_length)
    rules = OutputRules(
        limits, special_tokens, vocabulary_size, constraints, logit_tokens=logit_tokens
    )

    def choose_best(
        logits: Tensor, ids: Tensor, index: Tensor, rules: OutputRules
    ) -> tuple[Tensor, Tensor]:
        nothing = ops.zeros(ops.shape(logits)[:2], dtype="float32")
        best = best_extensions(logits, nothing, 1, ids, index, rules)
        return best.tokens, best.log_probs

    ids, log_probs = generate(
        step,
        state,
        choose_best,
        rules,
        batch_size=batch_size,
        num_outputs=1,
        max_length=max_length,
        may_leave=True,
        with_xla=with_xla,
    )
    return ids[:, 0], log_probs[:, 0]


_LEAST_TEMPERATURE = 2.0**-126  # the smallest float32 that no processor flushes to 0
BELOW_ONE = 1 - 2**-24  # the largest float32 below 1


def sample(
    step: Step,
    state: Any,
    uniforms: Tensor,
    *,
    batch_size: Tensor,
    num_samples: Tensor,
    limits: Tensor,
    special_tokens: SpecialTokens,
    max_length: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    vocabulary_size: int | None = None,
    constraints: Sequence[Constraint] = (),
    with_xla: bool = False,
) -> tuple[Tensor, Tensor]:
    """Sample outputs token by token.

    Each token is sampled by inverting the cumulative distribution at a number from `uniforms`. An
    output therefore depends only on its own numbers, not on its batch or the backend.

    Args:
        step, state: see `beam_search`, with `num_samples` instead of beams.
        uniforms: float32 (batch, num_samples, at least max_length + 1), uniform in [0, 1).
        batch_size, num_samples: ints or int32 scalars.
        limits, special_tokens, max_length, vocabulary_size, constraints, with_xla: see
            `beam_search`.
        temperature: divisor of the logits; values below 1 favor probable tokens.
        top_k: sample from the `top_k` most probable tokens; None samples from all tokens.
        top_p: sample from the smallest set of most probable tokens whose total probability (after
            temperature and `top_k`) is at least `top_p`; None samples from all tokens.

    Returns:
        `(ids, log_probs)`: int32 (batch, num_samples, max_length + 1), without BOS, with EOS, then
        padding; float32 (batch, num_samples), the model's natural-log probability before
        temperature and filters, including EOS.

    Raises:
        ValueError: `temperature` is not positive, `top_k` is not a positive integer, `top_p` is
            outside (0, 1], there are too few `uniforms`, or `max_length` is less than a limit.

    Example:
        >>> import keras
        >>> from keras_transformer.types import SpecialTokens
        >>> table = keras.ops.log([[0.1, 0.1, 0.2, 0.6], [0.1, 0.1, 0.5, 0.3]])
        >>> def step(tokens, index, state):  # token 3 is likely after BOS (1), EOS (2) after 3
        ...     row = keras.ops.cast(tokens == 3, "int32")
        ...     return keras.ops.take(table, row, axis=0), state
        >>> ids, log_probs = sample(
        ...     step, (), [[[0.2, 0.9, 0.9], [0.9, 0.1, 0.9]]], batch_size=1, num_samples=2,
        ...     limits=[2], special_tokens=SpecialTokens(), max_length=2,
        ... )
        >>> keras.ops.convert_to_numpy(ids).tolist()
        [[[2, 0, 0], [3, 2, 0]]]

    Reference:
        Fan et al., "Hierarchical Neural Story Generation", 2018 (top-k); Holtzman et al., "The
        Curious Case of Neural Text Degeneration", 2020 (top-p).
    """
    check_sampling(temperature, top_k, top_p)
    limits = checked_limits(limits, max_length)
    rules = OutputRules(limits, special_tokens, vocabulary_size, constraints)
    uniforms = ops.minimum(ops.cast(uniforms, "float32"), BELOW_ONE)
    _check_uniforms(uniforms, max_length)

    def draw_next(
        logits: Tensor, ids: Tensor, index: Tensor, rules: OutputRules
    ) -> tuple[Tensor, Tensor]:
        logits = ops.cast(logits, "float32")
        possible = rules.possible(ids, index, logits)  # (batch, samples, vocabulary)
        tokens, chosen = draw(
            possible, ops.take(uniforms, index, axis=2), temperature, top_k, top_p
        )
        # An output ends at its limit even if its logits are NaN, which cannot be sampled from.
        tokens = ops.where(rules.must_end(index)[:, :, 0], special_tokens.eos, tokens)
        return tokens, chosen - ops.logsumexp(logits, axis=-1)

    return generate(
        step,
        state,
        draw_next,
        rules,
        batch_size=batch_size,
        num_outputs=num_samples,
        max_length=max_length,
        may_leave=False,
        with_xla=with_xla,
    )


def check_sampling(
    temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None
) -> None:
    """Require a finite temperature > 0 and, unless None, `top_k` >= 1 and `top_p` in (0, 1]."""
    check_positive_number("temperature", temperature)
    if top_k is not None:
        check_positive_int("top_k", top_k)
    if top_p is not None and not (is_number(top_p) and 0 < top_p <= 1):
        refuse("top_p", "be a number in (0, 1]", top_p)


def _check_uniforms(uniforms: Tensor, max_length: Any) -> None:
    """Require one number per output position, including EOS, if the sizes are known."""
    if len(uniforms.shape) != 3:
        rule = "have the shape (batch, num_samples, length)"
        refuse("uniforms", rule, shape=tuple(uniforms.shape))
    length = uniforms.shape[2]
    if isinstance(length, int) and is_integer(max_length) and length <= max_length:
        rule = "have at least `max_length` + 1 numbers for each output"
        refuse("uniforms", rule, shape=tuple(uniforms.shape), max_length=max_length)


def draw(
    logits: Tensor, uniforms: Tensor, temperature: float, top_k: int | None, top_p: float | None
) -> tuple[Tensor, Tensor]:
    """Sample one token per row.

    With a filter, candidates are sorted by probability; otherwise they stay in id order, because
    sorting the vocabulary takes longer than a model step.

    Args:
        logits: float32 (batch, samples, vocabulary), -inf for tokens that must not be sampled.
        uniforms: float32 (batch, samples) in [0, 1).
        temperature, top_k, top_p: see `sample`.

    Returns:
        `(tokens, chosen)`: the tokens, int32 (batch, samples), and their float32 logits.
    """
    values, tokens = logits, None
    if top_k is not None or top_p is not None:
        most = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])
        values, tokens = stable_top_k(logits, most)  # (batch, samples, n)
    differences = values - ops.max(values, axis=-1, keepdims=True)
    temperature = max(temperature, _LEAST_TEMPERATURE)
    weights = ops.exp(differences / temperature)  # (batch, samples, n), the largest is 1
    cumulative = ops.cumsum(weights, axis=-1)  # (batch, samples, n)
    is_candidate = weights > 0
    if top_p is not None:
        total = ops.sum(weights, axis=-1, keepdims=True)
        is_candidate = ops.logical_and(is_candidate, cumulative - weights < top_p * total)
    total = ops.max(ops.where(is_candidate, cumulative, 0.0), axis=-1, keepdims=True)
    is_reached = cumulative > ops.expand_dims(uniforms, -1) * total
    # Find the first candidate whose cumulative weight exceeds the threshold. A number below 1 times
    # the total is always below the total.
    is_reached = ops.cast(ops.logical_and(is_candidate, is_reached), "int32")
    places = ops.cast(ops.argmax(is_reached, axis=-1), "int32")  # (batch, samples)
    chosen = _at(values, places)
    return places if tokens is None else _at(tokens, places), chosen


def _at(values: Tensor, places: Tensor) -> Tensor:
    """Return the entries of `values` (batch, samples, n) at `places` (batch, samples)."""
    batch_size, num_samples = ops.shape(places)
    rows = ops.reshape(values, (-1, values.shape[-1]))
    return ops.reshape(choose(rows, ops.reshape(places, (-1, 1))), (batch_size, num_samples))

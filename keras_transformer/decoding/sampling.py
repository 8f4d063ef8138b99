"""Sampling from a stepwise model: each next token is drawn by its probability.

Axes in the shape comments:
    batch        sentences
    samples      outputs of a sentence
    vocabulary   logits
    n            candidates: the vocabulary, or its `top_k` most probable tokens
"""

from keras import ops

from keras_transformer.argument_checks import check_positive_int, check_positive_number, is_number
from keras_transformer.decoding.autoregression import generate
from keras_transformer.decoding.hypothesis_arrays import choose
from keras_transformer.decoding.next_tokens import NEVER, OutputRules

BELOW_ONE = 1 - 2**-24  # the largest float32 under 1


def sample(
    step,
    state,
    uniforms,
    *,
    batch_size,
    num_samples,
    limits,
    special_tokens,
    max_length,
    temperature=1.0,
    top_k=None,
    top_p=None,
    vocabulary_size=None,
    constraints=(),
):
    """Draw outputs token by token.

    Every token takes one given number and inverts the cumulative distribution with it. So an output
    depends on its own numbers alone: not on a generator, its batch or the backend.

    Args:
        step, state: as in `beam_search`, with `num_samples` in the place of the beams.
        uniforms: float32 (batch, num_samples, at least max_length + 1), drawn evenly from [0, 1).
        batch_size, num_samples: ints or int32 scalars.
        limits, special_tokens, max_length, vocabulary_size, constraints: as in `beam_search`.
        temperature: divisor of the logits; less than 1 favors what is probable.
        top_k: only the so many most probable tokens are drawn; None: all.
        top_p: only the fewest most probable tokens that together (after temperature and `top_k`)
            reach this probability are drawn; None: all.

    Returns:
        `(ids, log_probs)`: int32 (batch, num_samples, max_length + 1), without BOS, with EOS, then
        padding; float32 (batch, num_samples), the model's own log-probability, EOS included:
        neither temperature nor filters count.

    Raises:
        ValueError: `temperature` is no number > 0, `top_k` no positive integer, or `top_p` no
            number in (0, 1].

    Example:
        >>> import keras
        >>> from keras_transformer.special_tokens import SpecialTokens
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
    rules = OutputRules(ops.cast(limits, "int32"), special_tokens, vocabulary_size, constraints)
    uniforms = ops.minimum(ops.cast(uniforms, "float32"), BELOW_ONE)

    def draw_next(logits, ids, index):
        logits = ops.cast(logits, "float32")
        may_follow = rules.may_follow(ids, index, logits.shape[-1])
        logits_of_outputs = ops.where(may_follow, logits, NEVER)  # (batch, samples, vocabulary)
        tokens, chosen = draw(
            logits_of_outputs, ops.take(uniforms, index, axis=2), temperature, top_k, top_p
        )
        # Logits that are no numbers have no token to draw: the output ends all the same.
        tokens = ops.where(rules.must_end(index)[:, :, 0], special_tokens.eos, tokens)
        return tokens, chosen - ops.logsumexp(logits, axis=-1)

    return generate(
        step,
        state,
        draw_next,
        batch_size=batch_size,
        num_outputs=num_samples,
        special_tokens=special_tokens,
        max_length=max_length,
    )


def check_sampling(temperature=1.0, top_k=None, top_p=None):
    """Require a number > 0, None or an integer >= 1, and None or a number in (0, 1]."""
    check_positive_number("temperature", temperature)
    if top_k is not None:
        check_positive_int("top_k", top_k)
    if top_p is not None and not (is_number(top_p) and 0 < top_p <= 1):
        raise ValueError(f"`top_p` must be a number in (0, 1]. Received: top_p={top_p!r}")


def draw(logits, uniforms, temperature, top_k, top_p):
    """One token a row.

    Filtered candidates are in the order of their probability; else they stay in that of their ids,
    because to sort a vocabulary takes longer than the model's step.

    Args:
        logits: float32 (batch, samples, vocabulary), -inf where a token must not be drawn.
        uniforms: float32 (batch, samples) in [0, 1).
        temperature, top_k, top_p: as in `sample`.

    Returns:
        `(tokens, chosen)`: int32 (batch, samples) and the tokens' logits, float32.
    """
    values, tokens = logits, None
    if top_k is not None or top_p is not None:
        most = logits.shape[-1] if top_k is None else min(top_k, logits.shape[-1])
        values, tokens = ops.top_k(logits, most)  # (batch, samples, n)
    differences = values - ops.max(values, axis=-1, keepdims=True)
    weights = ops.exp(differences / temperature)  # (batch, samples, n), the largest is 1
    cumulative = ops.cumsum(weights, axis=-1)  # (batch, samples, n)
    is_candidate = weights > 0
    if top_p is not None:
        total = ops.sum(weights, axis=-1, keepdims=True)
        is_candidate = ops.logical_and(is_candidate, cumulative - weights < top_p * total)
    total = ops.max(ops.where(is_candidate, cumulative, 0.0), axis=-1, keepdims=True)
    is_reached = cumulative > ops.expand_dims(uniforms, -1) * total
    # The first candidate that is reached. Below 1 a number times the total is always less than it.
    is_reached = ops.cast(ops.logical_and(is_candidate, is_reached), "int32")
    places = ops.cast(ops.argmax(is_reached, axis=-1), "int32")  # (batch, samples)
    chosen = _at(values, places)
    return places if tokens is None else _at(ops.cast(tokens, "int32"), places), chosen


def _at(values, places):
    """The entries of `values` (batch, samples, n) at `places` (batch, samples)."""
    batch_size, num_samples = ops.shape(places)
    rows = ops.reshape(values, (-1, values.shape[-1]))
    return ops.reshape(choose(rows, ops.reshape(places, (-1, 1))), (batch_size, num_samples))

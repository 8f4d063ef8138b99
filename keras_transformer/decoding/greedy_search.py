"""Greedy search over a stepwise model: the most probable token, position by position."""

from keras import ops

from keras_transformer.decoding.autoregression import generate
from keras_transformer.decoding.hypothesis_arrays import choose
from keras_transformer.decoding.next_tokens import OutputRules, next_token_candidates


def greedy_search(
    step,
    state,
    *,
    batch_size,
    limits,
    special_tokens,
    max_length,
    vocabulary_size=None,
    constraints=(),
):
    """Take the most probable token at each position until EOS.

    Args:
        step: callable `(tokens, index, state) -> (logits, state)`: int32 (batch, 1) tokens at
            position `index` (int32 scalar; BOS is at 0) to logits (batch, 1, vocabulary) for the
            position after it.
        state: what `step` needs besides: a nest of tensors (batch, 1, ...) whose shapes stay.
        batch_size: number of sentences, an int or an int32 scalar.
        limits: int32 (batch,), most output tokens of each sentence, EOS not counted. An output that
            reaches its limit ends with EOS.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        max_length: an int or an int32 scalar, at least the largest of `limits`.
        vocabulary_size: number of tokens; logits from there on are padding of the vocabulary and
            never produced. None: every logit is a token's.
        constraints: what may be produced besides, as in `decoding.constraints`. Where they leave no
            token together, the later ones give way; the limit outranks them all.

    Returns:
        `(ids, log_probs)`: int32 (batch, max_length + 1), without BOS, with EOS, then padding;
        float32 (batch,), the log-probability of the output, EOS included.

    Example:
        >>> import keras
        >>> from keras_transformer.special_tokens import SpecialTokens
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
    rules = OutputRules(ops.cast(limits, "int32"), special_tokens, vocabulary_size, constraints)

    def choose_best(logits, ids, index):
        log_probs, tokens = next_token_candidates(logits, 1, ids, index, rules)
        best, places = ops.top_k(log_probs[:, 0, :], 1)  # (batch, 1) of (batch, n)
        return choose(tokens[:, 0, :], places), best

    ids, log_probs = generate(
        step,
        state,
        choose_best,
        batch_size=batch_size,
        num_outputs=1,
        special_tokens=special_tokens,
        max_length=max_length,
    )
    return ids[:, 0], log_probs[:, 0]

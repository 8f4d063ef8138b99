"""Greedy search over a stepwise model: the most probable token, position by position.

Axes in the shape comments:
    batch        sentences
    length       `max_length` + 1 output positions
    n            places for the next token (see next_token_candidates)
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.hypothesis_arrays import choose, empty_ids, write_at
from keras_transformer.decoding.next_tokens import next_token_candidates


class GreedyState(NamedTuple):
    """What one step of the search hands to the next."""

    index: Any  # () position of `tokens` in the decoder's input, where BOS is at 0
    tokens: Any  # (batch, 1) last token of each output; EOS once it has ended
    ids: Any  # (batch, length)
    log_probs: Any  # (batch,)
    model_state: Any  # nest of (batch, 1, ...)


def greedy_search(step, state, *, batch_size, limits, special_tokens, max_length):
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
    limits = ops.cast(limits, "int32")
    eos = special_tokens.eos

    def advance(outputs):
        logits, model_state = step(outputs.tokens, outputs.index, outputs.model_state)
        must_end = ops.reshape(outputs.index >= limits, (-1, 1, 1))  # (batch, 1, 1)
        log_probs, tokens = next_token_candidates(logits, 1, must_end, special_tokens)
        best, places = ops.top_k(log_probs[:, 0, :], 1)  # (batch, 1) of (batch, n)
        tokens = choose(tokens[:, 0, :], places)  # (batch, 1)
        has_ended = outputs.tokens == eos  # (batch, 1)
        written = ops.where(has_ended, special_tokens.pad, tokens)  # (batch, 1)
        return GreedyState(
            index=outputs.index + 1,
            tokens=ops.where(has_ended, eos, tokens),
            ids=write_at(outputs.ids, outputs.index, written[:, 0]),
            log_probs=outputs.log_probs + ops.where(has_ended, 0.0, best)[:, 0],
            model_state=model_state,
        )

    outputs = GreedyState(
        index=ops.zeros((), dtype="int32"),
        tokens=ops.full((batch_size, 1), special_tokens.bos, dtype="int32"),
        ids=empty_ids((batch_size,), max_length, special_tokens),
        log_probs=ops.zeros((batch_size,), dtype="float32"),
        model_state=state,
    )
    (outputs,) = ops.while_loop(
        lambda outputs: ops.any(outputs.tokens != eos),
        lambda outputs: (advance(outputs),),
        (outputs,),
    )
    return outputs.ids, outputs.log_probs

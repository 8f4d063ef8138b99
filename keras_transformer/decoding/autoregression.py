"""Outputs that grow token by token, each on its own: the loop under greedy search and sampling.

Axes in the shape comments:
    batch        sentences
    outputs      outputs of a sentence
    length       `max_length` + 1 output positions
"""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.hypothesis_arrays import empty_ids, write_at


class GenerationState(NamedTuple):
    """What one step of the generation hands to the next."""

    index: Any  # () position of `tokens` in the decoder's input, where BOS is at 0
    tokens: Any  # (batch, outputs) last token of each output; EOS once it has ended
    ids: Any  # (batch, outputs, length)
    log_probs: Any  # (batch, outputs)
    model_state: Any  # nest of (batch, outputs, ...)


def generate(step, state, choose_next, *, batch_size, num_outputs, special_tokens, max_length):
    """Append the chosen token to every output until all have ended.

    Args:
        step, state: as in `beam_search`, with `num_outputs` in the place of the beams.
        choose_next: callable `(logits, ids, index) -> (tokens, log_probs)`: logits (batch,
            num_outputs, vocabulary) and the ids so far to the tokens at position `index` and their
            log-probabilities, both (batch, num_outputs).
        batch_size, num_outputs: ints or int32 scalars.
        special_tokens: the `SpecialTokens` of the vocabulary.
        max_length: an int or an int32 scalar, most output tokens, EOS not counted.

    Returns:
        `(ids, log_probs)`: int32 (batch, num_outputs, max_length + 1), without BOS, with EOS, then
        padding; float32 (batch, num_outputs), EOS included.
    """
    eos = special_tokens.eos

    def advance(outputs):
        logits, model_state = step(outputs.tokens, outputs.index, outputs.model_state)
        tokens, log_probs = choose_next(logits, outputs.ids, outputs.index)
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
    (outputs,) = ops.while_loop(
        lambda outputs: ops.any(outputs.tokens != eos),
        lambda outputs: (advance(outputs),),
        (outputs,),
    )
    return outputs.ids, outputs.log_probs

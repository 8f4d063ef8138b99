"""The loop of greedy search and sampling: outputs grow token by token, each on its own.

Axes in the shape comments:
    batch        sentences
    outputs      outputs of a sentence
    length       `max_length` + 1 output positions
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.hypothesis_arrays import empty_ids, write_at
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor

# `(tokens, index, state) -> (logits, state)`, see `beam_search`.
Step = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]


class GenerationState(NamedTuple):
    """The state between two steps of the generation."""

    index: Tensor  # () position of `tokens` in the decoder's input, where BOS is at 0
    tokens: Tensor  # (batch, outputs) last token of each output; EOS once it has ended
    ids: Tensor  # (batch, outputs, length)
    log_probs: Tensor  # (batch, outputs)
    model_state: Any  # nest of (batch, outputs, ...)


def generate(
    step: Step,
    state: Any,
    choose_next: Callable[[Tensor, Tensor, Tensor], tuple[Tensor, Tensor]],
    *,
    batch_size: Tensor,
    num_outputs: Tensor,
    special_tokens: SpecialTokens,
    max_length: Tensor,
) -> tuple[Tensor, Tensor]:
    """Append the chosen token to every output until all have ended.

    Args:
        step, state: as in `beam_search`, with `num_outputs` for the beams.
        choose_next: callable `(logits, ids, index) -> (tokens, log_probs)` that takes the logits
            (batch, num_outputs, vocabulary) and the ids before position `index`, and returns the
            tokens there and their log-probabilities, both (batch, num_outputs).
        batch_size, num_outputs: ints or int32 scalars.
        special_tokens: the `SpecialTokens` of the vocabulary.
        max_length: int or int32 scalar, maximum number of output tokens, EOS excluded.

    Returns:
        `(ids, log_probs)`: int32 (batch, num_outputs, max_length + 1), without BOS, with EOS, then
        padding; natural-log probabilities, float32 (batch, num_outputs), EOS included.
    """
    eos = special_tokens.eos

    def advance(outputs: GenerationState) -> GenerationState:
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

"""The loop of greedy search and sampling: each output grows token by token, independently.

Axes in the shape comments:
    batch        sentences
    outputs      outputs of a sentence
    length       `max_length` + 1 output positions
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.hypothesis_arrays import empty_ids, write_at
from keras_transformer.decoding.next_tokens import OutputRules
from keras_transformer.decoding.sentence_loop import search_loop
from keras_transformer.types import Tensor

# `(tokens, index, state) -> (logits, state)`, see `beam_search`.
Step = Callable[[Tensor, Tensor, Any], tuple[Tensor, Any]]


class GenerationState(NamedTuple):
    """The state between two generation steps."""

    index: Tensor  # () position of `tokens` in the decoder's input, where BOS is at 0
    tokens: Tensor  # (batch, outputs) last token of each output; EOS once it has ended
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
    """Append the chosen token to every output until all have ended.

    Args:
        step, state: as in `beam_search`, with `num_outputs` instead of beams.
        choose_next: callable `(logits, ids, index, rules) -> (tokens, log_probs)` that takes the
            logits (batch, num_outputs, vocabulary), the ids before position `index` and the rules
            of their sentences. It returns the tokens at `index` and their log-probabilities, both
            (batch, num_outputs).
        rules: the `OutputRules`.
        batch_size, num_outputs: ints or int32 scalars.
        max_length: int or int32 scalar, maximum number of output tokens, EOS excluded.
        may_leave: whether sentences may leave when their outputs have ended: every tensor of
            `state` must then be (batch, ...).
        with_xla: as in `beam_search`.

    Returns:
        `(ids, log_probs)`: int32 (batch, num_outputs, max_length + 1), without BOS, with EOS, then
        padding; natural-log probabilities, float32 (batch, num_outputs), EOS included.
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

"""Greedy search with a stepwise model: the most probable token at each position."""

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_transformer.decoding.autoregression import Step, generate
from keras_transformer.decoding.constraints import Constraint
from keras_transformer.decoding.next_tokens import OutputRules, best_extensions, checked_limits
from keras_transformer.special_tokens import SpecialTokens
from keras_transformer.types import Tensor


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
    """Take the most probable token at each position until EOS.

    Args:
        step, state: as in `beam_search`, with one beam.
        batch_size: int or int32 scalar, number of sentences.
        limits: int32 (batch,), maximum number of output tokens of each sentence, EOS excluded. An
            output that reaches its limit ends with EOS.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        max_length: int or int32 scalar, at least the largest of `limits`.
        vocabulary_size: number of tokens; further logits are padding of the vocabulary, which is
            never produced. None: every logit is a token's.
        constraints: callables, see `decoding.constraints`; the strongest first. If together they
            allow no token, the later ones yield; the limit takes precedence over all of them.
        with_xla, logit_tokens: as in `beam_search`.

    Returns:
        `(ids, log_probs)`: int32 (batch, max_length + 1), without BOS, with EOS, then padding;
        natural-log probabilities, float32 (batch,), EOS included.

    Raises:
        ValueError: `max_length` is less than a limit.

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

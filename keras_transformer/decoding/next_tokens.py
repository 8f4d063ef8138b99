"""From logits to candidates for the next token: how every search begins a step."""

from typing import Any, NamedTuple

from keras import ops

from keras_transformer.decoding.constraints import allowed_by

NEVER = -float("inf")  # log-probability of what must not be chosen


class OutputRules(NamedTuple):
    """What may be produced, whatever the search.

    Args:
        limits: int32 (batch,), most output tokens of each sentence, EOS not counted. An output that
            reaches its limit ends with EOS, whatever the constraints say.
        special_tokens: the `SpecialTokens` of the vocabulary. Padding and BOS are never produced.
        vocabulary_size: number of tokens, of which no other is produced; None: as many as logits.
        constraints: callables as in `decoding.constraints`, those first that hold first.
    """

    limits: Any
    special_tokens: Any
    vocabulary_size: Any = None
    constraints: Any = ()

    def must_end(self, index):
        """Whether EOS is all that may be at position `index`: bool (batch, 1, 1)."""
        return ops.reshape(index >= self.limits, (-1, 1, 1))

    def is_output(self, tokens):
        """Whether tokens may be produced at all; of the shape of `tokens`."""
        is_output = ops.logical_and(
            tokens != self.special_tokens.pad, tokens != self.special_tokens.bos
        )
        if self.vocabulary_size is not None:
            is_output = ops.logical_and(is_output, tokens < self.vocabulary_size)
        return is_output

    def may_follow(self, ids, index, num_logits):
        """Whether a token may be at position `index`, by the constraints and the limits.

        Args:
            ids: int32 (batch, beams, length), filled before `index`.
            index: int32 scalar.
            num_logits: number of logits.

        Returns:
            Bool tensor that broadcasts to (batch, beams, num_logits); at least one is true in each
            row.
        """
        tokens = ops.arange(num_logits, dtype="int32")  # (vocabulary,)
        is_allowed = ops.reshape(self.is_output(tokens), (1, 1, -1))  # (1, 1, vocabulary)
        is_allowed = allowed_by(self.constraints, ids, index, is_allowed)
        return ops.where(self.must_end(index), tokens == self.special_tokens.eos, is_allowed)


def next_token_candidates(logits, count, ids, index, rules):
    """The most probable next tokens, best first, with their log-probabilities.

    Padding and BOS are no output: they are never a candidate, but keep their share of the
    probability, so that every score is the model's own; so is the padding of the vocabulary, and
    what a constraint forbids. They are dropped after the top-k, which reads the logits once and
    copies none; constraints alone need a mask of the logits.

    Args:
        logits: float tensor (batch, beams, vocabulary), unnormalised.
        count: how many candidates are wanted.
        ids: int32 (batch, beams, length), the hypotheses, filled before `index`.
        index: int32 scalar, the position of the next token.
        rules: the `OutputRules`.

    Returns:
        `(log_probs, tokens)`, float32 and int32 (batch, beams, n), n = `count` + the number of
        tokens that are no output, or the number of logits if that is less. Entries with
        log-probability -inf are no candidates; the `count` best ones are among the others, or all
        there are. Of equally probable tokens the lower id comes first.
    """
    logits = ops.cast(logits, "float32")
    num_logits = logits.shape[-1]
    vocabulary_size = num_logits if rules.vocabulary_size is None else rules.vocabulary_size
    n = min(count + 2 + num_logits - vocabulary_size, num_logits)
    possible = logits
    if rules.constraints:
        possible = ops.where(rules.may_follow(ids, index, num_logits), logits, NEVER)
    best, tokens = ops.top_k(possible, n)  # (batch, beams, n)
    tokens = ops.cast(tokens, "int32")
    best = ops.where(rules.is_output(tokens), best, NEVER)

    eos, must_end = rules.special_tokens.eos, rules.must_end(index)
    only_eos = ops.where(ops.arange(n) == 0, logits[..., eos : eos + 1], NEVER)
    best = ops.where(must_end, only_eos, best)
    tokens = ops.where(must_end, eos, tokens)
    return best - ops.logsumexp(logits, axis=-1, keepdims=True), tokens

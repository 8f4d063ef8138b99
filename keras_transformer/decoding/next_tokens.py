"""From logits to candidates for the next token: how every search begins a step."""

from keras import ops

NEVER = -float("inf")  # log-probability of what must not be chosen


def next_token_candidates(logits, count, must_end, special_tokens):
    """The most probable next tokens, best first, with their log-probabilities.

    Padding and BOS are no output: they are never a candidate, but keep their share of the
    probability, so that every score is the model's own. They are dropped after the top-k, which
    reads the logits once and copies none.

    Args:
        logits: float tensor (batch, beams, vocabulary), unnormalised.
        count: how many candidates are wanted.
        must_end: bool tensor (batch, 1, 1); where true, EOS is the only candidate.
        special_tokens: the `SpecialTokens` of the vocabulary.

    Returns:
        `(log_probs, tokens)`, float32 and int32 (batch, beams, n), n = `count` + 2 or the
        vocabulary's size if that is less. Entries with log-probability -inf are no candidates; the
        `count` best ones are among the others, or all there are. Of equally probable tokens the
        lower id comes first.
    """
    logits = ops.cast(logits, "float32")
    n = min(count + 2, logits.shape[-1])
    best, tokens = ops.top_k(logits, n)  # (batch, beams, n)
    tokens = ops.cast(tokens, "int32")
    is_output = ops.logical_and(tokens != special_tokens.pad, tokens != special_tokens.bos)
    best = ops.where(is_output, best, NEVER)

    eos = special_tokens.eos
    only_eos = ops.where(ops.arange(n) == 0, logits[..., eos : eos + 1], NEVER)
    best = ops.where(must_end, only_eos, best)
    tokens = ops.where(must_end, eos, tokens)
    return best - ops.logsumexp(logits, axis=-1, keepdims=True), tokens

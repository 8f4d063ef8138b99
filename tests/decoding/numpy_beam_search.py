"""Beam search on Python lists in float64, one sentence, always run to its limit: the reference."""

import math


def numpy_beam_search(
    log_probs_after,
    *,
    beam_size,
    alpha,
    limit,
    special_tokens,
    length_penalty="gnmt",
    allowed_after=None,
):
    """The `beam_size` best `(tokens, score)` of one sentence, best first.

    `log_probs_after(prefix)` gives the log-probability of every token after a tuple of tokens,
    `allowed_after(prefix)` the tokens that may follow it; None: all but padding and BOS.
    """
    never = {special_tokens.pad, special_tokens.bos}
    live, finished = [((), 0.0)], []
    for position in range(limit + 1):
        extensions = []
        for prefix, total in live:
            for token, log_prob in enumerate(log_probs_after(prefix)):
                is_possible = token == special_tokens.eos or position < limit
                if allowed_after is not None:
                    is_possible = token in allowed_after(prefix)
                if is_possible and token not in never:
                    extensions.append(((*prefix, token), total + float(log_prob)))
        extensions.sort(key=lambda extension: -extension[1])
        extensions = extensions[: 2 * beam_size]
        for tokens, total in extensions:
            if tokens[-1] == special_tokens.eos:
                base = len(tokens) if length_penalty == "power" else (5 + len(tokens)) / 6
                finished.append((tokens, total / math.pow(base, alpha)))
        live = [e for e in extensions if e[0][-1] != special_tokens.eos][:beam_size]
    return sorted(finished, key=lambda hypothesis: -hypothesis[1])[:beam_size]

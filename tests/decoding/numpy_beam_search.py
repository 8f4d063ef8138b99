"""Beam search on Python lists in float64, one sentence: the reference."""

import math


def numpy_beam_search(
    log_probs_after,
    *,
    beam_size,
    alpha,
    limit,
    special_tokens,
    length_penalty="gnmt",
    ending="any",
    allowed_after=None,
):
    """The `beam_size` best `(tokens, score)` of one sentence, best first.

    With `ending="any"` it always runs to its limit. `log_probs_after(prefix)` gives the
    log-probability of every token after a tuple of tokens, `allowed_after(prefix)` the tokens that
    may follow it; None: all but padding and BOS.
    """

    def penalty(length):
        return math.pow(length if length_penalty == "power" else (5 + length) / 6, alpha)

    def extended(prefix, total):
        """Every hypothesis of one token more."""
        is_last = len(prefix) == limit
        for token, log_prob in enumerate(log_probs_after(prefix)):
            is_possible = token == special_tokens.eos or not is_last
            if allowed_after is not None:
                is_possible = token in allowed_after(prefix)
            if is_possible and token not in {special_tokens.pad, special_tokens.bos}:
                is_free = is_last and ending != "any"
                yield (*prefix, token), total + (0.0 if is_free else float(log_prob))

    def best(hypotheses):
        return sorted(hypotheses, key=lambda hypothesis: -hypothesis[1])

    live, finished = [((), 0.0)], []
    num_ending = 2 * beam_size if ending == "any" else beam_size
    for position in range(limit + 1):
        extensions = best(each for hypothesis in live for each in extended(*hypothesis))
        num_open = beam_size - len(finished) if ending == "marian" else 2 * beam_size
        extensions = extensions[:num_open]
        ended = [e for e in extensions[:num_ending] if e[0][-1] == special_tokens.eos]
        # At the limit, Marian's outputs have no end of sentence.
        is_cut = ending == "marian" and position == limit > 0
        finished += [(tokens, total / penalty(len(tokens) - is_cut)) for tokens, total in ended]
        live = [e for e in extensions if e[0][-1] != special_tokens.eos][:beam_size]
        if ending == "transformers" and live and len(finished) >= beam_size:
            worst_kept = best(finished)[beam_size - 1][1]
            if live[0][1] / penalty(position + 1) <= worst_kept:
                break
    return best(finished)[:beam_size]


def without_padding(ids, pad=0):
    return tuple(int(i) for i in ids if i != pad)

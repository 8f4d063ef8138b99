"""What may follow a hypothesis, on Python tuples: the reference of limits and constraints."""


def allowed_after(hypothesis, *, outputs, eos, limit, prefix=(), min_length=0, ngram=0):
    """The set of tokens that may follow; of constraints that leave none, the later gives way."""
    if len(hypothesis) >= limit:
        return {eos}

    def keeps_prefix(token):
        return len(hypothesis) >= len(prefix) or token == prefix[len(hypothesis)]

    def is_long_enough(token):
        return token != eos or len(hypothesis) >= min_length

    def is_new_ngram(token):
        extended = (*hypothesis, token)
        earlier = {extended[i : i + ngram] for i in range(len(extended) - ngram)}
        return not ngram or len(extended) < ngram or extended[-ngram:] not in earlier

    allowed = set(outputs)
    for rule in (keeps_prefix, is_long_enough, is_new_ngram):
        allowed = {token for token in allowed if rule(token)} or allowed
    return allowed

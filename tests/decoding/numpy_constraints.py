"""What may follow a hypothesis, on Python tuples: the reference of limits and constraints."""


def num_repeats(tokens, n):
    """How many tokens at the end equal the token `n` places before."""
    places = range(len(tokens) - 1, n - 1, -1)
    return next((i for i, k in enumerate(places) if tokens[k] != tokens[k - n]), len(places))


def allowed_after(
    hypothesis, *, outputs, eos, limit, prefix=(), min_length=0, ngram=0, repeats=0, source=()
):
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

    def is_no_loop(token):
        own = [sum(a == b for a, b in zip(source, source[n:], strict=False)) for n in range(9)]
        extended = (*hypothesis, token)
        found = any(num_repeats(extended, n) >= repeats * n + own[n] for n in range(1, 9))
        return not (repeats and found)

    allowed = set(outputs)
    for rule in (keeps_prefix, is_long_enough, is_new_ngram, is_no_loop):
        allowed = {token for token in allowed if rule(token)} or allowed
    return allowed


def allowed_in_tree(hypothesis, *, num_leaves, limit, labels, leaf, eos, max_openings):
    """The set of tokens that may follow in a linearised tree, by a stack; limits fit a tree.

    `labels` has a pair of tokens, opening and closing, for each label.
    """
    closing_of = dict(labels)
    stack, left, openings = [], num_leaves, 0
    for token in hypothesis:
        openings = openings + 1 if token in closing_of else 0
        if token in closing_of:
            stack.append(token)
        elif token == leaf:
            left -= 1
        else:
            assert closing_of[stack.pop()] == token
    if not left and not stack:
        return {eos}
    allowed = set()
    if left and stack:
        allowed.add(leaf)
    if left and openings < max_openings and len(hypothesis) + left + len(stack) + 2 <= limit:
        allowed |= set(closing_of)
    if stack and not openings and (len(stack) > 1 or not left):
        allowed.add(closing_of[stack[-1]])
    return allowed

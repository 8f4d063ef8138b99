"""What outputs meet which terms, read from left to right in plain Python."""

import itertools

ENDS, JOINS, IS_GAP = 1, 2, 4


class Reader:
    """Reads an output and counts the terms that it meets."""

    def __init__(self, forms, flags, bos):
        self.forms, self.flags, self.last = forms, flags, bos
        self.left = {form.term: form.times for form in forms}
        self.alive, self.width, self.accepted, self.is_broken = [], 0, None, False

    def shortest(self, term):
        own = [form for form in self.forms if form.term == term]
        return min(len(form.tokens) + self.joins(form) for form in own)

    def joins(self, form):
        return bool(self.flags[form.tokens[0]] & JOINS)

    def needed(self, left, alive, width, accepted, is_gap):
        open_forms = [form for form in self.forms if left[form.term] > 0 and self.joins(form)]
        needs_gap = any(self.shortest(form.term) > len(form.tokens) for form in open_forms)
        saved = [int(is_gap and needs_gap)]
        saved += [self.shortest(form.term) - len(form.tokens) + width for form in alive]
        saved += [self.shortest(accepted.term)] if accepted else []
        return sum(n * self.shortest(term) for term, n in left.items()) - max(0, *saved, 0)

    def read(self, token):
        """Read the next token."""
        ends = self.flags[self.last] & ENDS
        is_gap = not (ends and self.flags[token] & JOINS)
        whole = [form for form in self.alive if len(form.tokens) == self.width]
        if whole and is_gap:
            self.accepted = whole[0]
        longer = [
            form for form in self.alive if form.tokens[self.width : self.width + 1] == (token,)
        ]
        is_gap_after = not self.flags[token] & ENDS
        going_on = self.left, longer, self.width + 1, self.accepted, is_gap_after
        left = dict(self.left)
        if self.accepted:
            left[self.accepted.term] -= 1
        starts = [
            form
            for form in self.forms
            if left[form.term] > 0 and form.tokens[0] == token and is_gap
        ]
        other = left, starts, int(bool(starts)), None, is_gap_after
        if not longer and not self.accepted:
            self.is_broken |= any(form.is_reserved for form in self.alive)
        is_one = longer and self.needed(*going_on) <= self.needed(*other)
        self.left, self.alive, self.width, self.accepted, _ = going_on if is_one else other
        self.last = token


def meets(tokens, forms, flags, bos):
    """Whether an output with EOS meets all its terms, and breaks none that is reserved."""
    reader = Reader(forms, flags, bos)
    for token in tokens:
        reader.read(token)
    return not reader.is_broken and all(left == 0 for left in reader.left.values())


def contains(tokens, forms, flags):
    """Whether an output has the terms somewhere, as words that do not overlap."""
    tokens = list(tokens)
    wanted = []
    for term in sorted({form.term for form in forms}):
        own = [form for form in forms if form.term == term]
        wanted += [own] * own[0].times

    def is_word(start, end):
        before = start and flags[tokens[start - 1]] & ENDS and flags[tokens[start]] & JOINS
        after = end < len(tokens) and flags[tokens[end - 1]] & ENDS and flags[tokens[end]] & JOINS
        return not before and not after

    def found(place, open_terms):
        if not open_terms:
            return True
        for start, (i, own) in itertools.product(range(place, len(tokens)), enumerate(open_terms)):
            for form in own:
                end = start + len(form.tokens)
                is_there = tuple(tokens[start:end]) == form.tokens and is_word(start, end)
                if is_there and found(end, open_terms[:i] + open_terms[i + 1 :]):
                    return True
        return False

    return found(0, wanted)

"""Brackets that do not match are made to match, with few changes to the sequence."""

import typing

from keras_transformer.parsing.linearization import LEAF_TOKEN, read_token

_BEAM = 16  # readings kept: as good as 64 for PTB trees with up to four wrong tokens
_FARTHEST = 16  # phrases that one closing bracket may close beside its own


class Matched(typing.NamedTuple):
    """A sequence of brackets and `XX` that match. There may be no tree, or several.

    `repairs` counts tokens that were added, dropped or given another label, and `unclosed` the
    phrases that were open at the sequence's end: the last tokens.
    """

    tokens: list
    repairs: int
    unclosed: int


class _Reading(typing.NamedTuple):
    """One way to read the sequence so far, with so many changes.

    `stack` is the open phrases' number in `_Stacks`, `roots` the number of trees and words that are
    in no phrase. Linked from the last: `wraps`, labels of phrases that begin before the first
    token, and `tokens`, what was kept and added.
    """

    repairs: int
    stack: int
    roots: int
    wraps: tuple | None
    tokens: tuple | None


class _Stacks:
    """All stacks of open phrases ever seen, as numbers: equal stacks have one number; 0 is empty.

    Readings share what lies below, and are compared without a walk through their stacks.
    """

    def __init__(self):
        self.label, self.below, self.depth = [None], [None], [0]
        self._number = {}

    def push(self, stack, label):
        """The stack with one more phrase open."""
        number = self._number.setdefault((stack, label), len(self.label))
        if number == len(self.label):
            self.label.append(label)
            self.below.append(stack)
            self.depth.append(self.depth[stack] + 1)
        return number


def match_brackets(tokens):
    """Make brackets match, by a beam search for the fewest changes; returns a `Matched`.

    What is no bracket with a label and not `XX` is dropped. A closing bracket of another label than
    the innermost open phrase's is read in three ways: it has the wrong label; it is one too many;
    the phrases within its own were never closed. A closing bracket where no phrase is open gives
    all before it a phrase, or is one too many. One that ends the first tree before the sequence
    ends may be one too many as well. The reading with the fewest changes wins; of equal ones the
    first in this order.
    """
    pieces = [piece for piece in map(read_token, tokens) if piece[0]]
    stacks = _Stacks()
    readings = [_Reading(len(tokens) - len(pieces), 0, 0, None, None)]
    for number, (side, label) in enumerate(pieces, start=1):
        if side == ")":
            last = number == len(pieces)
            readings = _best(
                new for reading in readings for new in _close(reading, label, stacks, last)
            )
        else:
            readings = [_go_on(reading, side, label, stacks) for reading in readings]
    best = min(readings, key=lambda reading: _cost(reading)[0] + stacks.depth[reading.stack])
    unclosed = stacks.depth[best.stack]
    return Matched(_written(best, stacks), best.repairs + unclosed, unclosed)


def _go_on(reading, side, label, stacks):
    """The reading with an opening bracket or a word more."""
    repairs, stack, roots, wraps, before = reading
    roots += stack == 0
    if side == LEAF_TOKEN:
        return _Reading(repairs, stack, roots, wraps, (LEAF_TOKEN, before))
    return _Reading(repairs, stacks.push(stack, label), roots, wraps, (f"({label}", before))


def _close(reading, label, stacks, last):
    """All ways to read a closing bracket, the likely ones first."""
    repairs, stack, roots, wraps, before = reading
    innermost = stacks.label[stack]
    dropped = reading._replace(repairs=repairs + 1)
    if stack == 0:
        if roots > 1:
            yield _Reading(repairs + 1, 0, 1, (label, wraps), (f"){label}", before))
        yield dropped
        return
    wrong = int(innermost != label)
    below = stacks.below[stack]
    yield _Reading(repairs + wrong, below, roots, wraps, (f"){innermost}", before))
    if wrong or (below == 0 and not last):
        yield dropped
    if wrong:
        for missing in range(1, _FARTHEST + 1):
            before = _without_end(before, stacks.label[stack])
            stack = stacks.below[stack]
            if stack == 0:
                return
            if stacks.label[stack] == label:
                before = (f"){label}", before)
                yield _Reading(repairs + missing, stacks.below[stack], roots, wraps, before)
                return


def _without_end(before, label):
    """The tokens with one change for a phrase that was never closed: one without a word goes."""
    return before[1] if before[0] == f"({label}" else (f"){label}", before)


def _best(readings):
    """The readings with the fewest changes, one for each stack of open phrases."""
    kept = {}
    for reading in readings:
        rival = kept.get(reading.stack)
        if rival is None or _cost(reading) < _cost(rival):
            kept[reading.stack] = reading
    return sorted(kept.values(), key=_cost)[:_BEAM]


def _cost(reading):
    """Fewest changes first, with the one that makes several trees one.

    Of equal ones, a tree that ended too early comes before one that began too late: a sequence is
    made from left to right, and its first bracket is the one least often forgotten.
    """
    return reading.repairs + (reading.roots > 1), reading.wraps is not None


def _written(reading, stacks):
    """The tokens of a reading, with the brackets that are still to close."""
    tokens, rest, stack, wraps = [], reading.tokens, reading.stack, reading.wraps
    while rest:
        token, rest = rest
        tokens.append(token)
    openings = []
    while wraps:  # from the last, which is outermost
        label, wraps = wraps
        openings.append(f"({label}")
    tokens.extend(reversed(openings))
    tokens.reverse()
    while stack:
        tokens.append(f"){stacks.label[stack]}")
        stack = stacks.below[stack]
    return tokens

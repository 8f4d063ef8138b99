"""Making brackets match, with few changes to the sequence."""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Sequence

from keras_transformer.parsing.linearization import LEAF_TOKEN, read_token

_BEAM = 16  # as good as 64 for PTB trees with up to four wrong tokens
_FARTHEST = 16  # most phrases that one closing bracket closes besides its own

# A linked list of strings from the last one to the first; None is empty.
_Linked = tuple[str, "_Linked"] | None


class Matched(typing.NamedTuple):
    """A sequence of matching brackets and `XX`: any number of trees and words.

    `repairs` is the number of tokens that were added, dropped or given another label; `unclosed`
    is the number of phrases that were open at the end, which the last tokens close.
    """

    tokens: list[str]
    repairs: int
    unclosed: int


class _Reading(typing.NamedTuple):
    """One way to read the sequence so far.

    `stack` is the number of the open phrases in `_Stacks`, `roots` the number of trees and words
    outside of phrases, `wraps` the labels of phrases that begin before the first token, `tokens`
    those kept and added.
    """

    repairs: int
    stack: int
    roots: int
    wraps: _Linked
    tokens: _Linked


class _Stacks:
    """Numbers of all stacks of open phrases, the same for equal stacks; 0 is the empty one.

    Readings share the lower parts of their stacks and are compared by number.
    """

    def __init__(self) -> None:
        self.label, self.below, self.depth = [""], [0], [0]
        self._number: dict[tuple[int, str], int] = {}

    def push(self, stack: int, label: str) -> int:
        """Return the stack with one more open phrase."""
        number = self._number.setdefault((stack, label), len(self.label))
        if number == len(self.label):
            self.label.append(label)
            self.below.append(stack)
            self.depth.append(self.depth[stack] + 1)
        return number


def match_brackets(tokens: Sequence[object]) -> Matched:
    """Make brackets match by a beam search for the fewest changes.

    Tokens other than brackets with labels and `XX` are dropped. A closing bracket with a label
    other than the innermost open phrase's is read in three ways: its label is wrong; it is
    superfluous; the phrases within its own were never closed. A closing bracket outside of all
    phrases gives everything before it a phrase, or is superfluous. One that ends the first tree
    before the end of the sequence may be superfluous too. The reading with the fewest changes
    wins; of equal ones, the first in this order.
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


def _go_on(reading: _Reading, side: str, label: str, stacks: _Stacks) -> _Reading:
    """The reading after an opening bracket or a word."""
    repairs, stack, roots, wraps, before = reading
    roots += stack == 0
    if side == LEAF_TOKEN:
        return _Reading(repairs, stack, roots, wraps, (LEAF_TOKEN, before))
    return _Reading(repairs, stacks.push(stack, label), roots, wraps, (f"({label}", before))


def _close(reading: _Reading, label: str, stacks: _Stacks, last: bool) -> Iterator[_Reading]:
    """All readings of a closing bracket, the likely ones first."""
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


def _without_end(before: _Linked, label: str) -> _Linked:
    """Close a phrase that was never closed, or drop its opening bracket if it is empty."""
    return before[1] if before and before[0] == f"({label}" else (f"){label}", before)


def _best(readings: Iterable[_Reading]) -> list[_Reading]:
    """The readings with the fewest changes, one for each stack of open phrases."""
    kept: dict[int, _Reading] = {}
    for reading in readings:
        rival = kept.get(reading.stack)
        if rival is None or _cost(reading) < _cost(rival):
            kept[reading.stack] = reading
    return sorted(kept.values(), key=_cost)[:_BEAM]


def _cost(reading: _Reading) -> tuple[int, bool]:
    """Number of changes, counting the one that joins several trees.

    Of equal ones, a tree that ended too early comes before one that began too late, since models
    seldom forget the first bracket.
    """
    return reading.repairs + (reading.roots > 1), reading.wraps is not None


def _written(reading: _Reading, stacks: _Stacks) -> list[str]:
    """The tokens of a reading, with closing brackets for the open phrases."""
    tokens: list[str] = []
    rest, stack, wraps = reading.tokens, reading.stack, reading.wraps
    while rest:
        token, rest = rest
        tokens.append(token)
    openings = []
    while wraps:  # from the last, the outermost
        label, wraps = wraps
        openings.append(f"({label}")
    tokens.extend(reversed(openings))
    tokens.reverse()
    while stack:
        tokens.append(f"){stacks.label[stack]}")
        stack = stacks.below[stack]
    return tokens

"""Finding the brackets of one tree that cross those of another, in nearly linear time."""

import bisect
from collections.abc import Sequence

from keras_transformer.parsing.evalb_sentence import EvalbBracket


def first_crossed(
    brackets: Sequence[EvalbBracket], others: Sequence[EvalbBracket]
) -> list[EvalbBracket | None]:
    """Return, for each of `others`, the first of `brackets` that overlaps it without nesting."""
    nested = _Nested(brackets)
    found: list[int | None] = [None] * len(others)
    # A bracket that begins before `other` and ends in it is around its start; one that begins in
    # it and ends after it is around its end.
    for number in sorted(range(len(others)), key=lambda number: others[number].start):
        found[number] = nested.ends_before(others[number].start, others[number].end)
    nested = _Nested(brackets)
    for number in sorted(range(len(others)), key=lambda number: others[number].end):
        earlier, other = found[number], others[number]
        later = nested.begins_after(other.end, other.start)
        if later is not None and (earlier is None or later < earlier):
            found[number] = later
    return [None if place is None else brackets[place] for place in found]


class _Nested:
    """The brackets around a position between two words, which moves to the right."""

    def __init__(self, brackets: Sequence[EvalbBracket]) -> None:
        places = (place for place, one in enumerate(brackets) if one.start < one.end)
        self._coming = sorted(
            ((brackets[place].start, -brackets[place].end, place) for place in places),
            reverse=True,
        )
        # Of the brackets around the position, from the outermost.
        self._starts: list[int] = []
        self._ends: list[int] = []  # negative, so that they ascend
        self._places: list[int] = []

    def ends_before(self, position: int, end: int) -> int | None:
        """Return the place of the first bracket around `position` that ends before `end`."""
        self._go_to(position)
        return self._place(bisect.bisect_right(self._ends, -end))

    def begins_after(self, position: int, start: int) -> int | None:
        """Return the place of the first bracket around `position` that begins after `start`."""
        self._go_to(position)
        return self._place(bisect.bisect_right(self._starts, start))

    def _go_to(self, position: int) -> None:
        while self._coming and self._coming[-1][0] < position:
            start, end, place = self._coming.pop()
            self._leave(start)
            self._starts.append(start)
            self._ends.append(end)
            self._places.append(place)
        self._leave(position)

    def _leave(self, position: int) -> None:
        """Drop the brackets that end at or before a position."""
        while self._ends and -self._ends[-1] <= position:
            del self._starts[-1], self._ends[-1], self._places[-1]

    def _place(self, number: int) -> int | None:
        return self._places[number] if number < len(self._places) else None

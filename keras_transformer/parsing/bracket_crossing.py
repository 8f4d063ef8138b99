"""Which brackets of one tree cross those of another: in time that grows with their number."""

import bisect


def first_crossed(brackets, others):
    """For each of `others` the first of `brackets` that crosses it: neither lies in the other."""
    nested = _Nested(brackets)
    found = [None] * len(others)
    # What begins before `other` and ends in it lies around its start, what begins in it and ends
    # behind it lies around its end.
    for number in sorted(range(len(others)), key=lambda number: others[number].start):
        found[number] = nested.ends_before(others[number].start, others[number].end)
    nested = _Nested(brackets)
    for number in sorted(range(len(others)), key=lambda number: others[number].end):
        later = nested.begins_after(others[number].end, others[number].start)
        if later is not None and (found[number] is None or later < found[number]):
            found[number] = later
    return [None if place is None else brackets[place] for place in found]


class _Nested:
    """The brackets around a position between two words, for one position after another."""

    def __init__(self, brackets):
        places = (place for place, one in enumerate(brackets) if one.start < one.end)
        self._coming = sorted(
            ((brackets[place].start, -brackets[place].end, place) for place in places),
            reverse=True,
        )
        # Of the brackets around the position, from the outermost.
        self._starts, self._ends, self._places = [], [], []  # ends are negative: they ascend

    def ends_before(self, position, end):
        """The first bracket around `position` that ends before `end`: its place, or None."""
        self._go_to(position)
        return self._place(bisect.bisect_right(self._ends, -end))

    def begins_after(self, position, start):
        """The first bracket around `position` that begins after `start`: its place, or None."""
        self._go_to(position)
        return self._place(bisect.bisect_right(self._starts, start))

    def _go_to(self, position):
        while self._coming and self._coming[-1][0] < position:
            start, end, place = self._coming.pop()
            self._leave(start)
            self._starts.append(start)
            self._ends.append(end)
            self._places.append(place)
        self._leave(position)

    def _leave(self, position):
        """Drop the brackets that end at a position or before it."""
        while self._ends and -self._ends[-1] <= position:
            del self._starts[-1], self._ends[-1], self._places[-1]

    def _place(self, number):
        return self._places[number] if number < len(self._places) else None

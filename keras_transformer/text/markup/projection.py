"""Where the tags of a sentence go in its translation, by a word alignment."""

import bisect
import heapq
from collections.abc import Sequence
from typing import NamedTuple

from keras_transformer.text.markup.segments import Segment, Span

Link = tuple[int, int, int, int]


class Step(NamedTuple):
    """A tag in a translation.

    Args:
        position: the character before which the tag is.
        tag: its index in `segment.tags`.
        is_closing: whether it is the closing tag.
    """

    position: int
    tag: int
    is_closing: bool


def project(
    segment: Segment, target: str, links: Sequence[Link], kept: Sequence[Span]
) -> list[Step]:
    """Return the tags of a translation in order, each tag once and in the source's nesting.

    A pair of tags is around the smallest span of the words that are linked to its words. Where
    spans of neighbors overlap, they are divided among them. Empty elements and pairs without linked
    words are next to the word that follows, or precedes if they touch it.

    Takes linear time, apart from sorting.
    """
    return _Projection(segment, target, links, kept).steps()


class _Projection:
    def __init__(
        self, segment: Segment, target: str, links: Sequence[Link], kept: Sequence[Span]
    ) -> None:
        self._tags = segment.tags
        self._length = len(segment.text)
        self._spaces_before, self._spaces_after = _runs([c.isspace() for c in segment.text])
        self._target_before, self._target_after = _runs([c.isspace() for c in target])
        self._low, self._high = _linked(segment, target, links, kept)
        self._next, self._last = _nearest([low is not None for low in self._low])
        self._marks_before, self._marks_after = _runs(self._free_marks(target, links, kept))
        self._children: list[list[int]] = [[] for _ in range(len(self._tags) + 1)]
        for index, tag in enumerate(self._tags):
            self._children[tag.parent].append(index)
        self._spans = self._wanted()
        self._regions: list[Span] = [(0, 0)] * len(self._tags) + [(0, len(target))]

    def steps(self) -> list[Step]:
        for parent in (-1, *range(len(self._tags))):
            self._place_children(parent)
        steps = []
        stack = [iter(self._children[-1])]
        opened: list[int] = []
        while stack:
            index = next(stack[-1], None)
            if index is not None:
                steps.append(Step(self._regions[index][0], index, False))
                if self._tags[index].closing is not None:
                    stack.append(iter(self._children[index]))
                    opened.append(index)
            else:
                stack.pop()
                if opened:
                    index = opened.pop()
                    steps.append(Step(self._regions[index][1], index, True))
        return steps

    def _free_marks(self, target: str, links: Sequence[Link], kept: Sequence[Span]) -> list[bool]:
        """Return which characters of the target are punctuation without links."""
        is_free = [not (c.isspace() or c.isalnum()) for c in target]
        for start, end in (*(link[2:] for link in links), *kept):
            is_free[start:end] = [False] * (end - start)
        return is_free

    def _wanted(self) -> list[Span | None]:
        """Return the span of the target that each pair is linked to."""
        spans: list[Span | None] = [None] * len(self._tags)
        stack: list[int] = []

        def close(position: int) -> None:
            while stack and self._tags[stack[-1]].end <= position:
                index = stack.pop()
                if stack:
                    spans[stack[-1]] = _union(spans[stack[-1]], spans[index])

        place = 0
        pairs = [index for index, tag in enumerate(self._tags) if tag.start < tag.end]
        for position in range(self._length):
            close(position)
            while place < len(pairs) and self._tags[pairs[place]].start == position:
                stack.append(pairs[place])
                place += 1
            low, high = self._low[position], self._high[position]
            if stack and low is not None and high is not None:
                spans[stack[-1]] = _union(spans[stack[-1]], (low, high))
        close(self._length)
        return [None if span is None else self._grown(i, *span) for i, span in enumerate(spans)]

    def _grown(self, index: int, start: int, end: int) -> Span:
        """Add punctuation and white space to a span if they are inside the tags in the source."""
        tag = self._tags[index]
        if self._low[tag.start + self._spaces_after[tag.start]] is None:
            start -= self._marks_before[start]
        if self._low[tag.end - 1 - self._spaces_before[tag.end]] is None:
            end += self._marks_after[end]
        return self._after_space(start, tag.start, tag.start), self._before_space(
            end, tag.end, tag.end
        )

    def _after_space(self, position: int, start: int, end: int) -> int:
        """Move a tag before the white space that it precedes in the source."""
        excess = self._target_before[position] - self._spaces_before[start]
        return position - max(0, min(self._spaces_after[end], excess))

    def _before_space(self, position: int, start: int, end: int) -> int:
        """Move a tag after the white space that it follows in the source."""
        excess = self._target_after[position] - self._spaces_after[end]
        return position + max(0, min(self._spaces_before[start], excess))

    def _place_children(self, parent: int) -> None:
        """Set the regions of the children of a tag in its region, and sort the children."""
        children = self._children[parent]
        if not children:
            return
        start, end = self._regions[parent]
        wanted = []
        for index in children:
            span = self._spans[index]
            if span is not None:
                wanted.append((max(start, span[0]), index, min(end, span[1])))
        regions = _divided(wanted)
        taken = sorted(regions.values())
        for index in children:
            region = regions.get(index)
            if region is None:
                position, is_after = self._anchor(index, parent, start)
                position = _outside(min(max(position, start), end), is_after, taken)
                region = (position, position)
            self._regions[index] = region
        children.sort(key=lambda index: (*self._regions[index], index))

    def _anchor(self, index: int, parent: int, default: int) -> tuple[int, bool]:
        """Return where an empty tag goes, and whether it follows its word."""
        tag = self._tags[index]
        first, last = 0, self._length
        if parent >= 0:
            first, last = self._tags[parent].start, self._tags[parent].end
        following, preceding = self._next[tag.end], self._last[tag.start]
        touches = self._spaces_before[tag.start] == 0 and self._spaces_after[tag.end] > 0
        low = self._low[following] if following < last else None
        high = self._high[preceding] if preceding >= first else None
        if low is not None and not (touches and high is not None):
            if self._low[tag.end + self._spaces_after[tag.end]] is None:
                low -= self._marks_before[low]
            return self._after_space(low, tag.start, tag.end), False
        if high is not None:
            if self._low[tag.start - 1 - self._spaces_before[tag.start]] is None:
                high += self._marks_after[high]
            return self._before_space(high, tag.start, tag.end), True
        return default, False


def _linked(
    segment: Segment, target: str, links: Sequence[Link], kept: Sequence[Span]
) -> tuple[list[int | None], list[int | None]]:
    """Return the span of the target that each character of the source is linked to."""
    source = segment.text
    low: list[int | None] = [None] * len(source)
    high: list[int | None] = [None] * len(source)
    is_kept = bytearray(len(target))
    for start, end in kept:
        is_kept[start:end] = b"\1" * (end - start)
    for start, end, target_start, target_end in links:
        if any(is_kept[target_start:target_end]):
            continue
        is_copy = source[start:end] == target[target_start:target_end]
        for place in range(start, end):
            if source[place].isspace():
                continue
            span = (target_start, target_end)
            if is_copy:
                span = (target_start + place - start, target_start + place - start + 1)
            known, limit = low[place], high[place]
            low[place] = span[0] if known is None else min(known, span[0])
            high[place] = span[1] if limit is None else max(limit, span[1])
    for protected, (start, end) in zip(segment.protected, kept, strict=True):
        for place in range(protected.start, protected.end):
            low[place], high[place] = start, end
    return low, high


def _union(first: Span | None, second: Span | None) -> Span | None:
    if first is None or second is None:
        return first or second
    return min(first[0], second[0]), max(first[1], second[1])


def _runs(flags: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Return the number of successive flags that end before, and start at, each position."""
    before, after = [0] * (len(flags) + 1), [0] * (len(flags) + 1)
    for place, flag in enumerate(flags):
        before[place + 1] = before[place] + 1 if flag else 0
    for place in reversed(range(len(flags))):
        after[place] = after[place + 1] + 1 if flags[place] else 0
    return before, after


def _nearest(flags: Sequence[bool]) -> tuple[list[int], list[int]]:
    """Return the index of the flag at or after, and before, each position.

    Without one, it is the length or -1.
    """
    following, preceding = [len(flags)] * (len(flags) + 1), [-1] * (len(flags) + 1)
    for place, flag in enumerate(flags):
        preceding[place + 1] = place if flag else preceding[place]
    for place in reversed(range(len(flags))):
        following[place] = place if flags[place] else following[place + 1]
    return following, preceding


def _divided(wanted: Sequence[tuple[int, int, int]]) -> dict[int, Span]:
    """Return disjoint regions for spans `(start, index, end)` that may overlap.

    If a span lies in another, the larger rest of the other is its region.
    """
    heap = list(wanted)
    heapq.heapify(heap)
    regions: dict[int, Span] = {}
    last = -1  # the region that ends last
    while heap:
        start, index, end = heapq.heappop(heap)
        if last in regions and start < regions[last][1]:
            before, limit = regions[last]
            start = max(start, before)
            if limit - end > start - before:
                heapq.heappush(heap, (end, last, limit))
                del regions[last]
            elif start > before:
                regions[last] = (before, start)
            else:
                start = limit
        if start < end:
            regions[index] = (start, end)
            last = index
    return regions


def _outside(position: int, is_after: bool, regions: Sequence[Span]) -> int:
    """Move a position out of the inside of regions: to the end or the start of the region."""
    place = bisect.bisect_left(regions, (position,)) - 1
    if place >= 0 and position < regions[place][1]:
        return regions[place][1 if is_after else 0]
    return position

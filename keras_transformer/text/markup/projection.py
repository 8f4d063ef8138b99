"""Where the tags of a sentence go in its translation, by a word alignment."""

import bisect
import heapq
import unicodedata
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from keras_transformer.text.markup.segments import Segment, Span

Link = tuple[int, int, int, int]
_MOST_CHARACTERS = 1_000  # that decide between two sides, so that it takes linear time


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
        self._low, self._high, is_linked = _linked(segment, target, links, kept)
        self._next, self._last = _nearest([low is not None for low in self._low])
        self._marks_before, self._marks_after = _runs(
            [_is_punctuation(c) and not linked for c, linked in zip(target, is_linked, strict=True)]
        )
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
                wanted.append((min(max(start, span[0]), end), index, min(end, span[1])))
        regions = self._divided(wanted)
        taken = sorted(region for region in regions.values() if region[0] < region[1])
        for index in children:
            first, last = regions.get(index, (0, 0))
            if first == last:
                position, is_after = first, False
                if index not in regions:
                    position, is_after = self._anchor(index, parent, start)
                first = last = _outside(min(max(position, start), end), is_after, taken)
            self._regions[index] = (first, last)
        children.sort(key=lambda index: (*self._regions[index], index))

    def _divided(self, wanted: Sequence[tuple[int, int, int]]) -> dict[int, Span]:
        """Return disjoint regions for spans `(start, index, end)` that may overlap.

        If a span lies in another, the other has the side with most of its words. A region may be
        empty.
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
                if start < end < limit and self._is_mostly_after(last, start, end):
                    heapq.heappush(heap, (end + self._target_after[end], last, limit))
                    del regions[last]
                elif start > before:
                    regions[last] = (before, max(before, start - self._target_before[start]))
                else:
                    start = limit
            regions[index] = (start, max(start, end))
            if start < end:
                last = index
        return regions

    def _is_mostly_after(self, index: int, start: int, end: int) -> bool:
        """Return whether more characters of a pair are linked to what is after a span."""
        tag = self._tags[index]
        balance = 0
        for place in range(tag.start, min(tag.end, tag.start + _MOST_CHARACTERS)):
            low, high = self._low[place], self._high[place]
            if low is not None and high is not None:
                balance += (low >= end) - (high <= start)
        return balance > 0

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
) -> tuple[list[int | None], list[int | None], list[bool]]:
    """Return what is linked.

    Returns:
        For each character of the source, the start and the end of the span that it is linked to,
        or None. For each character of the target, whether it is linked.
    """
    source = segment.text
    low: list[int | None] = [None] * len(source)
    high: list[int | None] = [None] * len(source)
    is_linked = [False] * len(target)
    is_kept = [False] * len(target)
    for start, end in kept:
        is_kept[start:end] = [True] * (end - start)
    for link in links:
        for start, end, first, last in _parts(source, target, link):
            if any(is_kept[first:last]):  # the protected text is linked to it
                continue
            is_linked[first:last] = [True] * (last - first)
            for place in range(start, end):
                known, limit = low[place], high[place]
                low[place] = first if known is None else min(known, first)
                high[place] = last if limit is None else max(limit, last)
    for protected, (start, end) in zip(segment.protected, kept, strict=True):
        is_linked[start:end] = [True] * (end - start)
        for place in range(protected.start, protected.end):
            low[place], high[place] = start, end
    return low, high, is_linked


def _parts(source: str, target: str, link: Link) -> Iterator[Link]:
    """Yield the parts of a link: the characters of a copied word, or a word and its punctuation."""
    start, end, first, last = link
    if source[start:end] == target[first:last]:
        for place in range(end - start):
            if not source[start + place].isspace():
                yield start + place, start + place + 1, first + place, first + place + 1
        return
    inner_start, inner_end = _core(source, start, end)
    inner_first, inner_last = _core(target, first, last)
    yield inner_start, inner_end, inner_first, inner_last
    if start < inner_start and first < inner_first:
        yield start, inner_start, first, inner_first
    if inner_end < end and inner_last < last:
        yield inner_end, end, inner_last, last


def _core(text: str, start: int, end: int) -> Span:
    """Return a span without white space and punctuation at its ends, unless nothing is left."""
    first, last = start, end
    while first < last and (text[first].isspace() or _is_punctuation(text[first])):
        first += 1
    while first < last and (text[last - 1].isspace() or _is_punctuation(text[last - 1])):
        last -= 1
    return (first, last) if first < last else (start, end)


def _is_punctuation(character: str) -> bool:
    return unicodedata.category(character)[0] == "P"


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


def _outside(position: int, is_after: bool, regions: Sequence[Span]) -> int:
    """Move a position out of the inside of regions: to the end or the start of the region."""
    place = bisect.bisect_left(regions, (position,)) - 1
    if place >= 0 and position < regions[place][1]:
        return regions[place][1 if is_after else 0]
    return position

"""Segments of marked-up documents: from the events of a tokenizer to plain text with tags."""

import dataclasses
import enum
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

Span = tuple[int, int]
Encode = Callable[[str], list[str]]  # spells each character of a translation in the document
IsRead = Callable[[str, Sequence[tuple[str, int, int]]], bool]


class Kind(enum.Enum):
    """What an event is. White space at the ends of a text is an event of its own."""

    TEXT = enum.auto()
    OPEN = enum.auto()
    CLOSE = enum.auto()
    EMPTY = enum.auto()  # an element without text, a comment, a stray tag; may separate words
    KEPT = enum.auto()  # text that is not translated, with its markup
    BREAK = enum.auto()  # between segments
    ATTRIBUTE = enum.auto()  # text in a tag, follows the tag


class Event(NamedTuple):
    """A part of the source, `source[start:end]`, with its decoded text."""

    kind: Kind
    start: int
    end: int
    text: str = ""
    name: str = ""
    is_block: bool = False
    is_kept: bool = False  # the element is not translated
    quote: str = ""  # of an attribute
    parts: tuple["Event", ...] = ()  # of the value of an attribute: text and what is kept


class Tag(NamedTuple):
    """An inline element or an empty one in a segment.

    Args:
        start, end: its text, `segment.text[start:end]`; equal for an empty one.
        name: name of the element.
        opening, closing: its tags in the source of the document; `closing` of an empty one is None.
        parent: index of the tag around it in `segment.tags`, or -1.
    """

    start: int
    end: int
    name: str
    opening: Span
    closing: Span | None
    parent: int


class Protected(NamedTuple):
    """Text that a translation contains unchanged.

    Args:
        start, end: the text, `segment.text[start:end]`.
        source: its place in the source of the document, with its markup.
    """

    start: int
    end: int
    source: Span


@dataclasses.dataclass(frozen=True)
class Segment:
    """Text to translate: a block of a document without its tags, or the value of an attribute.

    Args:
        text: the text with entities decoded and without white space at its ends. White space
            inside is as in the source and may contain line breaks.
        tags: the tags in the text, in the order of their opening tags.
        protected: text that a translation must contain unchanged, once each.
        source: place of the segment in the source of the document.
        before, after: what surrounds the text there, such as white space.
        encode: spells the characters of a translation.
        is_attribute: whether it is the value of an attribute.
        is_read: returns whether a parser finds the `(name, start, end)` of tags in a translation
            with tags; if not, tags are spelled as in HTML. Without it, the tags are always found.
    """

    text: str
    tags: tuple[Tag, ...]
    protected: tuple[Protected, ...]
    source: Span
    before: str = dataclasses.field(repr=False)
    after: str = dataclasses.field(repr=False)
    encode: Encode = dataclasses.field(repr=False)
    is_attribute: bool = False
    is_read: IsRead | None = dataclasses.field(default=None, repr=False)


def character_offsets(data: bytes) -> list[int]:
    """Return the index of the character that starts at each byte of UTF-8."""
    return list(itertools.accumulate(((byte & 0xC0) != 0x80 for byte in data), initial=0))


def resolve(events: Sequence[Event], length: int) -> list[list[Event]]:
    """Match the tags and return the events in blocks: text, inline tags and attributes.

    In the result, each `OPEN` has its `CLOSE` in the same block, in proper nesting.

    Args:
        events: the events of a document in order.
        length: number of characters of the document.
    """
    ends, closes = _matched(events)
    found, place = [], 0
    while place < len(events):
        event, end = events[place], place + 1
        if event.is_kept and event.kind is Kind.OPEN:
            end = ends[place] + (place in closes)
            event = _kept(events[place:end], events[end].start if end < len(events) else length)
            found.append((event, -1))
        elif event.kind in (Kind.OPEN, Kind.CLOSE) and not event.is_block:
            found.append((event, closes.get(place, -1) if event.kind is Kind.OPEN else place))
        else:
            found.append((event, -1))
        place = end
    blocks: list[list[Event]] = []
    for is_break, group in itertools.groupby(found, lambda each: _is_break(each[0])):
        if not is_break:
            blocks.append(_paired(list(group)))
    return blocks


def _is_break(event: Event) -> bool:
    return event.kind is Kind.BREAK or (event.is_block and event.kind is not Kind.ATTRIBUTE)


def _matched(events: Sequence[Event]) -> tuple[list[int], dict[int, int]]:
    """Return where each element ends, and the closing tag of each opening tag that has one."""
    ends, closes = [len(events)] * len(events), {}
    stack: list[int] = []
    depth: dict[str, int] = {}
    for place, event in enumerate(events):
        if event.kind is Kind.OPEN:
            stack.append(place)
            depth[event.name] = depth.get(event.name, 0) + 1
        elif event.kind is Kind.CLOSE and depth.get(event.name):
            name = ""
            while name != event.name:
                opening = stack.pop()
                name = events[opening].name
                depth[name] -= 1
                ends[opening] = place
            closes[opening] = place
    return ends, closes


def _kept(events: Sequence[Event], end: int) -> Event:
    """Return the event for an element that is not translated."""
    start = events[0].start
    if any(_is_break(event) for event in events):
        return Event(Kind.BREAK, start, end)
    kinds = (Kind.TEXT, Kind.KEPT)
    text = "".join(event.text for event in events if event.kind in kinds).strip()
    return Event(Kind.KEPT if text else Kind.EMPTY, start, end, text, events[0].name)


def _paired(group: Sequence[tuple[Event, int]]) -> list[Event]:
    """Return the events of a block; tags without their counterpart in the block are empty."""
    closing = {close for event, close in group if event.kind is Kind.CLOSE}
    paired = {close for event, close in group if event.kind is Kind.OPEN} & closing
    return [
        event._replace(kind=Kind.EMPTY)
        if event.kind in (Kind.OPEN, Kind.CLOSE) and close not in paired
        else event
        for event, close in group
    ]


def segments_of(
    blocks: Sequence[list[Event]],
    encode: Encode,
    encode_attribute: Callable[[str, str], list[str]],
) -> Iterator[Segment]:
    """Yield the segments of blocks, in the order in which they start.

    Args:
        blocks: the result of `resolve`.
        encode: spells the characters of text.
        encode_attribute: spells the characters of an attribute between quotes of a kind.
    """
    for block in blocks:
        found = []
        text = [event for event in block if event.kind is not Kind.ATTRIBUTE]
        segment = _segment_of(text, encode)
        if segment is not None:
            found.append(segment)
        for event in block:
            if event.kind is Kind.ATTRIBUTE:
                found.append(_attribute_of(event, encode_attribute))
        yield from sorted(found, key=lambda segment: segment.source)


def _attribute_of(event: Event, encode: Callable[[str, str], list[str]]) -> Segment:
    """Return the segment of an attribute. Values without quotes get quotes."""
    quote = "" if event.quote else '"'
    places = range(len(event.parts))
    text, tags, protected = _plain(event.parts, places, places, places)
    return Segment(
        text,
        tags,
        protected,
        (event.start, event.end),
        quote,
        quote,
        lambda text: encode(text, event.quote or quote),
        is_attribute=True,
    )


def _segment_of(events: Sequence[Event], encode: Encode) -> Segment | None:
    """Return the segment of a block, or None if there is nothing to translate."""
    if not has_words(events):
        return None
    partners = _partners(events)
    contents = [place for place, event in enumerate(events) if _is_content(event)]
    first, last = contents[0], contents[-1]
    left, right = 0, len(events)
    while left < first and (partners[left] <= first or partners[left] > last):
        left += 1
    while right - 1 > last and (partners[right - 1] >= last or partners[right - 1] < left):
        right -= 1
    text, tags, protected = _plain(events, partners, range(left, right), range(first, last + 1))
    return Segment(
        text,
        tags,
        protected,
        (events[left].start, events[right - 1].end),
        "".join(event.text for event in events[left:first] if event.kind is Kind.TEXT),
        "".join(event.text for event in events[last + 1 : right] if event.kind is Kind.TEXT),
        encode,
    )


def _plain(
    events: Sequence[Event], partners: Sequence[int], places: range, contents: range
) -> tuple[str, tuple[Tag, ...], tuple[Protected, ...]]:
    """Return the text of events, its tags and what is protected in it."""
    parts: list[str] = []
    length = 0
    tags: list[Tag] = []
    protected = []
    stack = [-1]
    is_separated = _before_space(events)
    for place in places:
        event = events[place]
        span = (event.start, event.end)
        if event.kind is Kind.OPEN:
            closing = events[partners[place]]
            tags.append(
                Tag(length, length, event.name, span, (closing.start, closing.end), stack[-1])
            )
            stack.append(len(tags) - 1)
        elif event.kind is Kind.CLOSE:
            tags[stack[-1]] = tags[stack[-1]]._replace(end=length)
            stack.pop()
        elif event.kind is Kind.EMPTY:
            tags.append(Tag(length, length, event.name, span, None, stack[-1]))
        text = event.text if place in contents else ""
        if event.kind is Kind.EMPTY and text and (is_separated[place] or parts[-1][-1].isspace()):
            text = ""  # the words are separate
        if event.kind is Kind.KEPT:
            protected.append(Protected(length, length + len(text), span))
        if text:
            parts.append(text)
            length += len(text)
    return "".join(parts), tuple(tags), tuple(protected)


def _before_space(events: Sequence[Event]) -> list[bool]:
    """Return whether the next text after each event starts with white space."""
    found, is_space = [False] * len(events), False
    for place in reversed(range(len(events))):
        found[place] = is_space
        if events[place].kind in (Kind.TEXT, Kind.KEPT):
            is_space = events[place].text[0].isspace()
    return found


def _partners(events: Sequence[Event]) -> list[int]:
    """Return the index of the other tag of each pair, and the own index of all other events."""
    partners, stack = list(range(len(events))), []
    for place, event in enumerate(events):
        if event.kind is Kind.OPEN:
            stack.append(place)
        elif event.kind is Kind.CLOSE:
            partners[place] = opening = stack.pop()
            partners[opening] = place
    return partners


def _is_content(event: Event) -> bool:
    return event.kind is Kind.KEPT or (event.kind is Kind.TEXT and not event.text.isspace())


def has_words(events: Sequence[Event]) -> bool:
    """Return whether there is something to translate: letters."""
    return any(event.kind is Kind.TEXT and any(map(str.isalpha, event.text)) for event in events)
